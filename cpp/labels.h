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
// backwards if `flip`. They are chosen by the rule of torch's "nearest", or of its "nearest-exact".
struct LabelAxis {
  int32_t size = 0, full = 0, offset = 0;
  bool flip = false, exact = false;

  float scale() const { return float(size) / float(full); }
};

// Returns floor(place * scale) in float32.
inline int32_t find_nearest(int32_t place, float scale, int32_t size) {
  return std::min(int32_t(float(place) * scale), size - 1);
}

// Returns floor(((place + 1/2) * scale - 1/2) + 1/2), each sum in float32. The product is not
// rounded, since torch multiplies and adds at once; a double holds it.
inline int32_t find_nearest_exact(int32_t place, float scale, int32_t size) {
  const auto source = std::max(float((place + 0.5) * double(scale) - 0.5), 0.0f);
  return std::min(int32_t(float(source + 0.5)), size - 1);
}

// Finds the pixels that results show. Returns the range of the results that lie in the picture;
// only those are found.
inline Range find_nearest(const LabelAxis& axis, int32_t count, std::vector<int32_t>& nearest) {
  nearest.resize(size_t(count));
  const float scale = axis.scale();
  const int32_t begin = std::clamp(-axis.offset, 0, count);
  const int32_t end = int32_t(std::clamp<int64_t>(int64_t(axis.full) - axis.offset, begin, count));
  const auto find = axis.exact ? find_nearest_exact
                               : static_cast<int32_t (*)(int32_t, float, int32_t)>(find_nearest);
  for (int32_t i = begin; i < end; ++i)
    nearest[size_t(i)] = find(axis.offset + i, scale, axis.size);
  if (!axis.flip) return {begin, end};
  std::reverse(nearest.begin(), nearest.end());
  return {count - end, count - begin};
}

// Copies the pixels at `places` of a row.
template <typename T>
inline void choose(const T* row, const int32_t* places, Range range, T* __restrict out) {
#pragma GCC unroll 8
  for (int32_t x = range.begin; x < range.end; ++x) out[x] = row[places[x]];
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
      std::fill_n(out, across.begin, fill);
      choose(in + size_t(ys[size_t(y)]) * stride, xs.data(), across, out);
      std::fill_n(out + across.end, width - across.end, fill);
    }
  }
}

}  // namespace headrace
