#include "program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "color.h"
#include "erase.h"
#include "hue.h"
#include "kernels.h"
#include "levels.h"

namespace headrace {
namespace {

// Returns the whole part, within limits. NaN becomes the least.
int to_int(double value, int least, int most) {
  if (!(value > least)) return least;
  return value < most ? int(value) : most;
}

uint8_t to_byte(double value) { return uint8_t(to_int(value, 0, 255)); }

// Returns a part of a full turn, in units of 1/255, without its fraction: -1 is 255.
uint8_t to_turn(double part) {
  return part < 0 ? uint8_t(-to_int(-part * 255, 0, 255)) : uint8_t(to_int(part * 255, 0, 255));
}

// Returns the first level that is not below a threshold, up to 256.
int find_first_level(double threshold) { return to_int(std::ceil(threshold), 0, 256); }

void flip(const Canvas& canvas, Buffer<uint8_t>& memory) {
  uint8_t* copy = memory.reserve(canvas.stride() + 1);
  for (int32_t y = 0; y < canvas.height; ++y) {
    std::memcpy(copy, canvas.row(y), canvas.stride());
    kernels().reverse_row(copy, canvas.row(y), size_t(canvas.width));
  }
}

void flip_rows(const Canvas& canvas) {
  for (int32_t y = 0; y < canvas.height / 2; ++y) {
    uint8_t* row = canvas.row(y);
    std::swap_ranges(row, row + canvas.stride(), canvas.row(canvas.height - 1 - y));
  }
}

void add_lighting(const Canvas& canvas, const double* p) {
  const float offset[3] = {float(p[0]), float(p[1]), float(p[2])};
  add_offset(canvas.pixels, canvas.count(), offset);
}

// `tail` is the filter and the fill.
void warp(const Canvas& canvas, const double* p, bool perspective, const double* tail,
          ProgramMemory& memory) {
  Warp warp;
  std::copy_n(p, perspective ? 8 : 6, warp.coefficients);
  warp.perspective = perspective;
  for (int c = 0; c < 3; ++c) warp.fill[c] = to_byte(tail[1 + c]);
  const int filter = to_int(tail[0], 0, 3);
  run_warp(canvas, warp,
           filter == 3   ? WarpFilter::bicubic
           : filter == 2 ? WarpFilter::bilinear
                         : WarpFilter::nearest,
           memory.warp);
}

EraseBox read_box(const double* p) {
  constexpr int kFar = 1 << 20;
  return {to_int(p[0], -kFar, kFar), to_int(p[1], -kFar, kFar), to_int(p[2], 0, kFar),
          to_int(p[3], 0, kFar)};
}

void run_step(Op op, const double* p, const Canvas& canvas, ProgramMemory& memory) {
  uint8_t* pixels = canvas.pixels;
  const size_t count = canvas.count(), size = canvas.size();
  switch (op) {
    case Op::brightness:
      return change_color(pixels, count, ColorChange::brightness, float(p[0]));
    case Op::contrast:
      return change_color(pixels, count, ColorChange::contrast, float(p[0]));
    case Op::color:
      return change_color(pixels, count, ColorChange::saturation, float(p[0]));
    case Op::sharpness:
      return change_sharpness(canvas, float(p[0]), memory.sharpness);
    case Op::hue:
      return turn_hue(pixels, count, to_turn(p[0]));
    case Op::grayscale:
      return make_grayscale(pixels, count);
    case Op::invert:
      return invert(pixels, size);
    case Op::posterize:
      return posterize(pixels, size, to_int(p[0], 0, 8));
    case Op::solarize:
      return solarize(pixels, size, find_first_level(p[0]));
    case Op::solarize_add:
      return solarize_add(pixels, size, to_int(p[0] + 255, 0, 510) - 255, find_first_level(p[1]));
    case Op::autocontrast:
      return autocontrast(pixels, count);
    case Op::equalize:
      return equalize(pixels, count);
    case Op::affine:
      return warp(canvas, p, false, p + 6, memory);
    case Op::perspective:
      return warp(canvas, p, true, p + 8, memory);
    case Op::gaussian_blur:
      return gaussian_blur(canvas, float(p[0]), memory.blur);
    case Op::torch_blur:
      return torch_blur(canvas, p[0], to_int(p[1], 1, 1001) | 1, memory.blur);
    case Op::flip:
      return flip(canvas, memory.row);
    case Op::flip_rows:
      return flip_rows(canvas);
    case Op::lighting:
      return add_lighting(canvas, p);
    case Op::erase: {
      const uint8_t levels[3] = {to_byte(p[4]), to_byte(p[5]), to_byte(p[6])};
      return erase(canvas, read_box(p), levels);
    }
    case Op::erase_output:
    case Op::erase_noise:
      return;  // see finish_program
  }
}

uint32_t to_word(double value) { return value > 0 && value < 4294967296.0 ? uint32_t(value) : 0; }

void finish_step(Op op, const double* p, const Elements& out) {
  if (op == Op::erase_output) erase_elements(out, read_box(p), p + 4);
  if (op == Op::erase_noise)
    erase_with_noise(out, read_box(p), uint64_t(to_word(p[5])) << 32 | to_word(p[4]));
}

}  // namespace

void run_program(const Program& program, const Canvas& canvas, ProgramMemory& memory) {
  for (int32_t i = 0; i < program.count; ++i)
    run_step(Op(program.codes[i]), program.params + size_t(i) * kParameters, canvas, memory);
}

void finish_program(const Program& program, const Elements& out) {
  for (int32_t i = 0; i < program.count; ++i)
    finish_step(Op(program.codes[i]), program.params + size_t(i) * kParameters, out);
}

}  // namespace headrace
