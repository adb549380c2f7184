// Programs: operations on the finished bytes of a result, one after the other, as Pillow does them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "blur.h"
#include "buffer.h"
#include "canvas.h"
#include "sharpness.h"
#include "warp.h"

namespace headrace {

// The operations; headrace.render.Op says what their parameters are.
enum class Op : uint8_t {
  brightness,
  contrast,
  color,
  sharpness,
  hue,
  grayscale,
  invert,
  posterize,
  solarize,
  solarize_add,
  autocontrast,
  equalize,
  affine,
  perspective,
  gaussian_blur,
  torch_blur,
  flip,
  flip_rows,
  lighting,
  erase,
  erase_output,
  erase_noise,
};

constexpr int kParameters = 12;

// Parameters out of range change what is shown, but never leave the memory of a picture.
struct Program {
  const uint8_t* codes = nullptr;  // an Op each
  const double* params = nullptr;  // [count][kParameters]
  int32_t count = 0;
};

// What a thread keeps from one program to the next.
struct ProgramMemory {
  Buffer<uint8_t> row;
  SharpnessMemory sharpness;
  WarpMemory warp;
  BlurMemory blur;

  // Frees the memory of a giant picture.
  void trim(size_t limit) {
    warp.source.trim(limit);
    blur.picture.trim(limit);
    blur.smooth.trim(limit);
  }
};

// Does all that is done to bytes.
void run_program(const Program& program, const Canvas& canvas, ProgramMemory& memory);

// Does what is done to the elements of the output, when they are finished.
void finish_program(const Program& program, const Elements& out);

}  // namespace headrace
