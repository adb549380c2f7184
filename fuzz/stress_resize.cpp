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
using headrace::Picture;
using headrace::Status;
using headrace::Target;
using headrace::View;

std::mt19937 bits;

int draw(int least, int most) { return least + int(bits() % unsigned(most - least + 1)); }
bool one_in(int count) { return draw(1, count) == 1; }

std::vector<uint8_t> draw_picture(Picture& picture) {
  const bool thin = one_in(8);  // for which a resize takes many taps
  picture.width = draw(1, thin ? 5000 : 300);
  picture.height = draw(1, thin ? 40 : 300);
  if (thin && one_in(2)) std::swap(picture.width, picture.height);
  std::vector<uint8_t> pixels(size_t(picture.width) * size_t(picture.height) * 3);
  const int kind = draw(0, 2);
  for (uint8_t& level : pixels)
    level = uint8_t(kind == 0 ? bits() : kind == 1 ? 255 * (bits() & 1) : 255);
  picture.image = {pixels.data(), pixels.size()};
  return pixels;
}

View draw_view(const Picture& picture) {
  View view;
  view.box = {0, 0, picture.width, picture.height};
  if (!one_in(3)) {
    view.box.left = draw(0, picture.width - 1);
    view.box.top = draw(0, picture.height - 1);
    view.box.width = draw(1, picture.width - view.box.left);
    view.box.height = draw(1, picture.height - view.box.top);
  }
  view.flip = one_in(2);
  if (one_in(3)) view.viewport = {draw(1, 400), draw(1, 400), draw(-20, 50), draw(-20, 50)};
  return view;
}

Target draw_target(const View& view) {
  Target target;
  target.width = one_in(5) ? view.box.width : draw(1, one_in(2) ? 8 : 300);
  target.height = one_in(5) ? view.box.height : draw(1, one_in(2) ? 8 : 300);
  target.filter = one_in(2) ? Filter::bilinear : Filter::bicubic;
  return target;
}

std::vector<uint8_t> render(const Picture& picture, const View& view, Target target,
                            bool portable) {
  std::vector<uint8_t> out(target.slot_size());
  Status status;
  target.out = out.data();
  target.status = &status;
  headrace::force_portable(portable);
  headrace::render({{picture}, {target}, {view}}, 1);
  if (status != Status::ok) std::abort();
  return out;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  bits.seed(unsigned(std::atoi(arguments[1])));
  for (int i = 0; i < std::atoi(arguments[2]); ++i) {
    Picture picture;
    const std::vector<uint8_t> pixels = draw_picture(picture);
    const View view = draw_view(picture);
    const Target target = draw_target(view);
    if (render(picture, view, target, false) != render(picture, view, target, true)) {
      std::printf("picture %d: %d x %d to %d x %d differs\n", i, view.box.width, view.box.height,
                  target.width, target.height);
      return 1;
    }
  }
  return 0;
}
