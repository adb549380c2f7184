// Pillow's ImageEnhance.Sharpness, in place.
#pragma once

#include "buffer.h"
#include "canvas.h"

namespace headrace {

// Blends with the picture smoothed by a kernel of 3 x 3. Edges stay; so does all of a picture that
// is smaller than the kernel. A factor of 1 changes nothing.
void change_sharpness(const Canvas& canvas, float factor, Buffer<uint8_t>& memory);

}  // namespace headrace
