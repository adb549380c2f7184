// Crop-resizes random pictures in every way, with AVX2 and without: both must give the same bytes,
// and the memory of pictures and results is exact, so that ASan guards its ends.
//
//   stress_resize SEED COUNT
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "../cpp/kernels.h"
#include "../cpp/render.h"

namespace {

using headrace::Filter;
using headrace::RenderJob;
using headrace::Status;
using headrace::Target;

std::mt19937 bits;

int draw(int least, int most) { return least + int(bits() % unsigned(most - least + 1)); }
bool one_in(int count) { return draw(1, count) == 1; }

std::vector<uint8_t> draw_picture(RenderJob& job) {
  const bool thin = one_in(8);  // for which a resize takes many taps
  job.width = draw(1, thin ? 5000 : 300);
  job.height = draw(1, thin ? 40 : 300);
  if (thin && one_in(2)) std::swap(job.width, job.height);
  std::vector<uint8_t> pixels(size_t(job.width) * size_t(job.height) * 3);
  const int kind = draw(0, 2);
  for (uint8_t& level : pixels)
    level = uint8_t(kind == 0 ? bits() : kind == 1 ? 255 * (bits() & 1) : 255);
  job.image = {pixels.data(), pixels.size()};
  return pixels;
}

void draw_box(RenderJob& job) {
  job.box = {0, 0, job.width, job.height};
  if (one_in(3)) return;
  job.box.left = draw(0, job.width - 1);
  job.box.top = draw(0, job.height - 1);
  job.box.width = draw(1, job.width - job.box.left);
  job.box.height = draw(1, job.height - job.box.top);
}

Target draw_target(RenderJob& job) {
  Target target;
  target.width = one_in(5) ? job.box.width : draw(1, one_in(2) ? 8 : 300);
  target.height = one_in(5) ? job.box.height : draw(1, one_in(2) ? 8 : 300);
  job.filter = one_in(2) ? Filter::bilinear : Filter::bicubic;
  job.flip = one_in(2);
  if (one_in(3)) job.viewport = {draw(1, 400), draw(1, 400), draw(-20, 50), draw(-20, 50)};
  return target;
}

std::vector<uint8_t> render(const RenderJob& job, Target target, bool portable) {
  std::vector<uint8_t> out(target.slot_size());
  Status status;
  target.out = out.data();
  target.status = &status;
  headrace::force_portable(portable);
  headrace::render({{job}, target}, 1);
  if (status != Status::ok) std::abort();
  return out;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  bits.seed(unsigned(std::atoi(arguments[1])));
  for (int i = 0; i < std::atoi(arguments[2]); ++i) {
    RenderJob job;
    const std::vector<uint8_t> pixels = draw_picture(job);
    draw_box(job);
    const Target target = draw_target(job);
    if (render(job, target, false) != render(job, target, true)) {
      std::printf("picture %d: %d x %d to %d x %d differs\n", i, job.box.width, job.box.height,
                  target.width, target.height);
      return 1;
    }
  }
  return 0;
}
