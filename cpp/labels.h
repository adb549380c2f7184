// Labels of masks under the geometry of their images: chosen by the nearest pixel, never mixed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "axis.h"
#include "resize_taps.h"

namespace headrace {

// Copies the pixels at `places` of a row.
template <typename T>
inline void choose(const T* row, const int32_t* places, Range range, T* __restrict out) {
#pragma GCC unroll 8
  for (int32_t x = range.begin; x < range.end; ++x) out[x] = row[places[x]];
}

// Renders labels to out[height][width], with `fill` outside of the picture. Rows of `in` have
// `stride` elements. All that is found must lie in it.
template <typename T>
void render_labels(const T* in, size_t stride, const Axis& rows, const Axis& columns, Nearest rule,
                   T fill, T* out, int32_t height, int32_t width) {
  static thread_local std::vector<int32_t> ys, xs;
  const Range down = find_nearest(rows, height, rule, ys);
  const Range across = find_nearest(columns, width, rule, xs);
  for (int32_t y = 0; y < height; ++y, out += width) {
    if (y < down.begin || y >= down.end) {
      std::fill_n(out, width, fill);
    } else if (y > down.begin && ys[size_t(y)] == ys[size_t(y) - 1]) {  // where it is enlarged
      std::memcpy(out, out - width, size_t(width) * sizeof(T));
    } else {
      std::fill_n(out, across.begin, fill);
      choose(in + size_t(ys[size_t(y)]) * stride, xs.data(), across, out);
      std::fill_n(out + across.end, width - across.end, fill);
    }
  }
}

}  // namespace headrace
