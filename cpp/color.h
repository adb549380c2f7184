// Colour operations between resize and output, in place, on `count` contiguous RGB pixels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

enum class ColorChange { brightness, contrast, saturation };

// Blends with black, with the mean grey level, or with the picture in grey, as Pillow's
// ImageEnhance does. A factor of 1 changes nothing.
void change_color(uint8_t* pixels, size_t count, ColorChange change, float factor);

// Applies the factors of brightness, contrast and saturation in the order of `order`, a permutation
// of 0, 1, 2. Bit-identical to Pillow's ImageEnhance. A factor of 1 changes nothing.
void jitter_color(uint8_t* pixels, size_t count, const float factors[3], const uint8_t order[3]);

// Adds `offset` to each channel, rounds to nearest (ties to even) and clips to a byte.
void add_offset(uint8_t* pixels, size_t count, const float offset[3]);

}  // namespace headrace
