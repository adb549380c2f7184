// Affine and perspective transforms of a picture, with the arithmetic of Pillow's Image.transform.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.h"
#include "canvas.h"

namespace headrace {

enum class WarpFilter { nearest, bilinear, bicubic };

// Pixels by which the edges of the source are repeated outwards.
constexpr int32_t kWarpBorder = 2;

struct Warp {
  // From the middle of an output pixel to its place in the source: (a x + b y + c, d x + e y + f),
  // both over (g x + h y + 1) if it is a perspective.
  double coefficients[8] = {};
  bool perspective = false;
  uint8_t fill[4] = {};  // the colour outside of the source

  // The source: RGB rows with borders. Four bytes of every pixel can be read.
  const uint8_t* pixels = nullptr;
  size_t stride = 0;
  int32_t width = 0, height = 0;
};

// A place in the source in 16.16 fixed point, and the step from one output pixel to the next.
struct FixedPlace {
  uint32_t x, y, step_x, step_y;
};

struct WarpMemory {
  Buffer<uint8_t> source;
  Buffer<int32_t> columns;
};

// Transforms a picture in place.
void run_warp(const Canvas& canvas, Warp& warp, WarpFilter filter, WarpMemory& memory);

}  // namespace headrace
