// Smoothing by 3 x 3 pixels, with the arithmetic of Pillow's ImageFilter.SMOOTH.
#pragma once

#include "vector.h"

namespace headrace {
namespace {

// Writes `size` bytes of RGB. All rows have a pixel before and behind.
void smooth_row(const uint8_t* above, const uint8_t* here, const uint8_t* below,
                uint8_t* __restrict out, size_t size) {
  const float edge = 1.0f / 13.0f, middle = 5.0f / 13.0f;
  const auto* up = above - 3;
  const auto* left = here - 3;
  const auto* down = below - 3;
  for (size_t i = 0; i < size; ++i) {
    float sum = 0.5f;
    sum += float(down[i]) * edge + float(down[i + 3]) * edge + float(down[i + 6]) * edge;
    sum += float(left[i]) * edge + float(left[i + 3]) * middle + float(left[i + 6]) * edge;
    sum += float(up[i]) * edge + float(up[i + 3]) * edge + float(up[i + 6]) * edge;
    out[i] = uint8_t(int(sum < 255.0f ? sum : 255.0f));
  }
}

}  // namespace
}  // namespace headrace
