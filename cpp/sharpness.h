// Pillow's ImageEnhance.Sharpness, in place.
#pragma once

#include "buffer.h"
#include "canvas.h"

namespace headrace {

struct SharpnessMemory {
  Buffer<uint8_t> rows;
  Buffer<uint16_t> sums;
};

// Blends with the picture smoothed by a kernel of 3 x 3. Edges stay; so does all of a picture that
// is smaller than the kernel. A factor of 1 changes nothing.
void change_sharpness(const Canvas& canvas, float factor, SharpnessMemory& memory);

}  // namespace headrace
