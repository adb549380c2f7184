// Labels of masks: chosen, never mixed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace headrace {

// Fills out[height][width] with in[rows[y]][columns[x]], or with `fill` where either is negative.
// Rows of `in` have `stride` elements.
template <typename T>
void gather_labels(const T* in, size_t stride, const int32_t* rows, size_t height,
                   const int32_t* columns, size_t width, T fill, T* out) {
  for (size_t y = 0; y < height; ++y, out += width) {
    if (y > 0 && rows[y] == rows[y - 1]) {  // the same again, where the mask is enlarged
      std::memcpy(out, out - width, width * sizeof(T));
      continue;
    }
    if (rows[y] < 0) {
      for (size_t x = 0; x < width; ++x) out[x] = fill;
      continue;
    }
    const T* row = in + size_t(rows[y]) * stride;
    for (size_t x = 0; x < width; ++x) out[x] = columns[x] < 0 ? fill : row[columns[x]];
  }
}

}  // namespace headrace
