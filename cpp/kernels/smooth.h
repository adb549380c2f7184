// Smoothing by 3 x 3 pixels, as Pillow's ImageFilter.SMOOTH: the neighbours have a weight of 1/13,
// the middle of 5/13. Pillow's sums are float and never so close to an integer that this
// matters.
#pragma once

#include "vector.h"

namespace headrace {
namespace {

// Writes `size` bytes of RGB. All rows have a pixel before and behind. `sums` has room for size
// + 6.
void smooth_row(const uint8_t* above, const uint8_t* here, const uint8_t* below,
                uint16_t* __restrict sums, uint8_t* __restrict out, size_t size) {
  const uint8_t *up = above - 3, *level = here - 3, *down = below - 3;
  for (size_t i = 0; i < size + 6; ++i) sums[i] = uint16_t(up[i] + level[i] + down[i]);
  for (size_t i = 0; i < size; ++i) {
    const auto total = uint16_t(sums[i] + sums[i + 3] + sums[i + 6] + 4 * here[i] + 6);
    out[i] = uint8_t((uint32_t(total) * 5042) >> 16);  // total / 13
  }
}

}  // namespace
}  // namespace headrace
