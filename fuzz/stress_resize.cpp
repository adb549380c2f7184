// Crop-resizes random pictures in every way, with AVX2 and without: both must give the same bytes,
// and the memory of pictures and results is exact, so that ASan guards its ends.
//
//   stress_resize SEED COUNT
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "../cpp/render.h"
#include "../cpp/simd.h"

namespace {

using headrace::Filter;
using headrace::Format;
using headrace::Sample;
using headrace::Status;

std::mt19937 bits;

int draw(int least, int most) { return least + int(bits() % unsigned(most - least + 1)); }
bool one_in(int count) { return draw(1, count) == 1; }

std::vector<uint8_t> draw_picture(Sample& sample) {
  const bool thin = one_in(8);  // for which a resize takes many taps
  sample.width = draw(1, thin ? 5000 : 300);
  sample.height = draw(1, thin ? 40 : 300);
  if (thin && one_in(2)) std::swap(sample.width, sample.height);
  std::vector<uint8_t> pixels(size_t(sample.width) * size_t(sample.height) * 3);
  const int kind = draw(0, 2);
  for (uint8_t& level : pixels)
    level = uint8_t(kind == 0 ? bits() : kind == 1 ? 255 * (bits() & 1) : 255);
  sample.image = {pixels.data(), pixels.size()};
  return pixels;
}

void draw_box(Sample& sample) {
  sample.box = {0, 0, sample.width, sample.height};
  if (one_in(3)) return;
  sample.box.left = draw(0, sample.width - 1);
  sample.box.top = draw(0, sample.height - 1);
  sample.box.width = draw(1, sample.width - sample.box.left);
  sample.box.height = draw(1, sample.height - sample.box.top);
}

Format draw_format(Sample& sample) {
  Format format;
  format.width = one_in(5) ? sample.box.width : draw(1, one_in(2) ? 8 : 300);
  format.height = one_in(5) ? sample.box.height : draw(1, one_in(2) ? 8 : 300);
  format.filter = one_in(2) ? Filter::bilinear : Filter::bicubic;
  sample.flip = one_in(2);
  if (one_in(3)) sample.window = {draw(1, 400), draw(1, 400), draw(-20, 50), draw(-20, 50)};
  return format;
}

std::vector<uint8_t> render(const Sample& sample, const Format& format, bool portable) {
  std::vector<uint8_t> out(size_t(format.width) * size_t(format.height) * 3);
  Status status;
  headrace::force_portable(portable);
  headrace::render_batch(&sample, 1, format, 1, out.data(), &status);
  if (status != Status::ok) std::abort();
  return out;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  bits.seed(unsigned(std::atoi(arguments[1])));
  for (int i = 0; i < std::atoi(arguments[2]); ++i) {
    Sample sample;
    const std::vector<uint8_t> pixels = draw_picture(sample);
    draw_box(sample);
    const Format format = draw_format(sample);
    if (render(sample, format, false) != render(sample, format, true)) {
      std::printf("picture %d: %d x %d to %d x %d differs\n", i, sample.box.width,
                  sample.box.height, format.width, format.height);
      return 1;
    }
  }
  return 0;
}
