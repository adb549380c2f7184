// Runs random programs with any parameters, sensible or not, on random pictures, with AVX2 and
// without: both must give the same bytes, and all memory is exact, so that ASan guards its ends.
//
//   stress_program SEED COUNT
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "../cpp/kernels.h"
#include "../cpp/render.h"

namespace {

using headrace::Element;
using headrace::Op;
using headrace::Picture;
using headrace::Program;
using headrace::Status;
using headrace::Target;
using headrace::View;

std::mt19937 bits;

int draw(int least, int most) { return least + int(bits() % unsigned(most - least + 1)); }
bool one_in(int count) { return draw(1, count) == 1; }
double draw_real(double least, double most) {
  return least + (most - least) * (double(bits()) / 4294967296.0);
}

std::vector<uint8_t> draw_picture(Picture& picture) {
  picture.width = one_in(20) ? draw(1, 1000) : draw(1, 70);
  picture.height = one_in(20) ? draw(1, 1000) : draw(1, 70);
  if (one_in(500)) picture = {{}, draw(30000, 65535), draw(1, 2)};  // beyond fixed point
  std::vector<uint8_t> pixels(size_t(picture.width) * size_t(picture.height) * 3);
  const int kind = draw(0, 2);
  for (uint8_t& level : pixels)
    level = uint8_t(kind == 0 ? bits() : kind == 1 ? 255 * (bits() & 1) : 77);
  picture.image = {pixels.data(), pixels.size()};
  return pixels;
}

// A parameter that no caller should give.
double draw_odd() {
  const double odd[] = {0.0,
                        -0.0,
                        -1.0,
                        1e-300,
                        1e300,
                        -1e300,
                        65536.5,
                        -32768.0,
                        4294967296.0,
                        std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::quiet_NaN()};
  return odd[draw(0, int(sizeof odd / sizeof *odd) - 1)];
}

// Parameters about as they should be: places are near the picture.
void draw_step(Op op, double* p) {
  const bool warps = op == Op::affine || op == Op::perspective;
  const bool erases = op == Op::erase || op == Op::erase_output || op == Op::erase_noise;
  for (int i = 0; i < headrace::kParameters; ++i)
    p[i] = warps ? draw_real(-1.5, 1.5) : erases ? draw(-20, 90) : draw_real(0, 3);
  if (warps) {
    const int filter = op == Op::affine ? 6 : 8;
    p[2] *= 60;
    p[5] *= 60;
    if (one_in(3)) p[1] = p[3] = 0;  // scales only
    if (op == Op::perspective) p[6] /= 60, p[7] /= 60;
    p[filter] = draw(0, 3);
  }
  if (op == Op::gaussian_blur && one_in(2)) p[0] = draw_real(0, 100);
  if (op == Op::torch_blur) p[1] = draw(0, 20) * 2 + 1;
  if (op == Op::posterize) p[0] = draw(0, 8);
  if (op == Op::solarize || op == Op::solarize_add) p[0] = draw(-300, 300), p[1] = draw(0, 256);
  for (int i = 0; i < headrace::kParameters; ++i)
    if (one_in(60)) p[i] = draw_odd();
}

struct Steps {
  std::vector<uint8_t> codes;
  std::vector<double> params;
};

Steps draw_steps() {
  Steps steps;
  steps.codes.resize(size_t(draw(0, 4)));
  steps.params.resize(steps.codes.size() * headrace::kParameters);
  for (size_t i = 0; i < steps.codes.size(); ++i) {
    steps.codes[i] = one_in(200) ? uint8_t(bits()) : uint8_t(draw(0, int(Op::erase_noise)));
    draw_step(Op(steps.codes[i]), steps.params.data() + i * headrace::kParameters);
  }
  return steps;
}

std::vector<uint8_t> draw_target(const Picture& picture, Target& target) {
  target.width = picture.width;
  target.height = picture.height;
  target.element = Element(draw(0, 3));
  target.element_size = headrace::size_of(target.element);
  target.planar = one_in(2);
  std::vector<uint8_t> table(768 * target.element_size);
  for (uint8_t& byte : table) byte = uint8_t(bits());
  return table;
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
    const Steps steps = draw_steps();
    View view;
    view.box = {0, 0, picture.width, picture.height};
    view.program = {steps.codes.data(), steps.params.data(), int32_t(steps.codes.size())};
    Target target;
    const std::vector<uint8_t> table = draw_target(picture, target);
    if (target.element != Element::byte || target.planar) target.table = table.data();
    if (render(picture, view, target, false) != render(picture, view, target, true)) {
      std::printf("program %d on %d x %d differs:", i, picture.width, picture.height);
      for (const uint8_t code : steps.codes) std::printf(" %d", code);
      std::printf("\n");
      return 1;
    }
  }
  return 0;
}
