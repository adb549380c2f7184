// Hue and grey, in place, on `count` contiguous RGB pixels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Adds `turn` to the hue, of which 256 are a full turn, as torchvision's adjust_hue does: through
// Pillow's HSV of three bytes and back.
void turn_hue(uint8_t* pixels, size_t count, uint8_t turn);

// Replaces all channels by the grey level.
void make_grayscale(uint8_t* pixels, size_t count);

}  // namespace headrace
