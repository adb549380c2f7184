// Labels of masks under the geometry of their images: chosen by the nearest pixel, never mixed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "resize_taps.h"

namespace headrace {

// One axis: `size` pixels are resized to `full`, of which a result shows those from `offset` on,
// backwards if `flip`.
struct LabelAxis {
  int32_t size = 0, full = 0, offset = 0;
  bool flip = false;
};

// Finds the pixels that results show, as torch's "nearest" does: floor(place * (size / full)) in
// float32. Returns the range of the results that lie in the picture; only those are found.
inline Range find_nearest(const LabelAxis& axis, int32_t count, std::vector<int32_t>& nearest) {
  nearest.resize(size_t(count));
  const float scale = float(axis.size) / float(axis.full);
  const int32_t begin = std::clamp(-axis.offset, 0, count);
  const int32_t end = int32_t(std::clamp<int64_t>(int64_t(axis.full) - axis.offset, begin, count));
  for (int32_t i = begin; i < end; ++i)
    nearest[size_t(i)] = std::min(int32_t(float(axis.offset + i) * scale), axis.size - 1);
  if (!axis.flip) return {begin, end};
  std::reverse(nearest.begin(), nearest.end());
  return {count - end, count - begin};
}

// Renders labels to out[height][width], with `fill` outside of the picture. Rows of `in` have
// `stride` elements. All that is found must lie in it.
template <typename T>
void render_labels(const T* in, size_t stride, const LabelAxis& rows, const LabelAxis& columns,
                   T fill, T* out, int32_t height, int32_t width) {
  static thread_local std::vector<int32_t> ys, xs;
  const Range down = find_nearest(rows, height, ys), across = find_nearest(columns, width, xs);
  for (int32_t y = 0; y < height; ++y, out += width) {
    if (y < down.begin || y >= down.end) {
      std::fill_n(out, width, fill);
    } else if (y > down.begin && ys[size_t(y)] == ys[size_t(y) - 1]) {  // where it is enlarged
      std::memcpy(out, out - width, size_t(width) * sizeof(T));
    } else {
      const T* row = in + size_t(ys[size_t(y)]) * stride;
      const int32_t* places = xs.data();
      std::fill_n(out, across.begin, fill);
      for (int32_t x = across.begin; x < across.end; ++x) out[x] = row[places[x]];
      std::fill_n(out + across.end, width - across.end, fill);
    }
  }
}

}  // namespace headrace
