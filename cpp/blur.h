// Blurs of a picture, in place.
#pragma once

#include <cstdint>

#include "buffer.h"
#include "canvas.h"

namespace headrace {

struct BlurMemory {
  Buffer<uint8_t> picture, padded;
  Buffer<uint32_t> sums;
  Buffer<float> weights, line, smooth;
  Buffer<const float*> lines;
};

// Pillow's GaussianBlur: three box blurs along rows, then three along columns.
void gaussian_blur(const Canvas& canvas, float radius, BlurMemory& memory);

// torchvision's gaussian_blur, with a kernel of `size` x `size`, which is odd: edges are mirrored.
// Sums are taken in another order, so a level may be off by one where it lies between two.
void torch_blur(const Canvas& canvas, double sigma, int size, BlurMemory& memory);

}  // namespace headrace
