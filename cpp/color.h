// Changes of colour between the resize and the batch, on `count` RGB pixels without gaps.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Pillow's ImageEnhance, bit-identical: factors of brightness, contrast and saturation, applied in
// the order of `order`, a permutation of 0, 1, 2. A factor of 1 changes nothing.
void jitter_color(uint8_t* pixels, size_t count, const float factors[3], const uint8_t order[3]);

// Adds `offset` to each channel, rounds to the nearest (ties to even) and clips to a byte.
void add_offset(uint8_t* pixels, size_t count, const float offset[3]);

}  // namespace headrace
