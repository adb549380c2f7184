// One axis of a mask or a map under the geometry of its image.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "resize_taps.h"

namespace headrace {

// How the nearest pixel is found. "nearest-exact" has two kernels in torch, which round
// differently: one for results of up to 128 rows and columns together, and one for larger ones.
enum class Nearest { floor, exact, exact_small };

inline Nearest choose_nearest(bool exact, int64_t rows_and_columns) {
  if (!exact) return Nearest::floor;
  return rows_and_columns <= 128 ? Nearest::exact_small : Nearest::exact;
}

// One axis: `size` pixels are resized to `full`, of which a result shows those from `offset` on,
// backwards if `flip`.
struct Axis {
  int32_t size = 0, full = 0, offset = 0;
  bool flip = false;

  float scale() const { return float(size) / float(full); }
};

// Returns the pixel that a resized one is taken from, in torch's float32.
template <Nearest Rule>
int32_t find_source(int32_t place, float scale, int32_t size) {
  float source;
  if constexpr (Rule == Nearest::floor) {
    source = float(place) * scale;
  } else if constexpr (Rule == Nearest::exact_small) {
    source = float((place + 0.5) * scale);
  } else {  // the first two operations at once, without rounding between: a double holds them
    const auto centered = std::max(float((place + 0.5) * double(scale) - 0.5), 0.0f);
    source = float(centered + 0.5);
  }
  return std::min(int32_t(source), size - 1);
}

using SourceFinder = int32_t (*)(int32_t place, float scale, int32_t size);

inline SourceFinder source_finder(Nearest rule) {
  return rule == Nearest::floor   ? find_source<Nearest::floor>
         : rule == Nearest::exact ? find_source<Nearest::exact>
                                  : find_source<Nearest::exact_small>;
}

// Returns which of `count` results lie in the picture, before they are turned around.
inline Range find_inside(const Axis& axis, int32_t count) {
  const int32_t begin = std::clamp(-axis.offset, 0, count);
  return {begin, int32_t(std::clamp<int64_t>(int64_t(axis.full) - axis.offset, begin, count))};
}

// Finds the pixels that results show. Returns the range of the results that lie in the picture;
// only those are found.
inline Range find_nearest(const Axis& axis, int32_t count, Nearest rule,
                          std::vector<int32_t>& nearest) {
  nearest.resize(size_t(count));
  const float scale = axis.scale();
  const SourceFinder find = source_finder(rule);
  const auto [begin, end] = find_inside(axis, count);
  for (int32_t i = begin; i < end; ++i)
    nearest[size_t(i)] = find(axis.offset + i, scale, axis.size);
  if (!axis.flip) return {begin, end};
  std::reverse(nearest.begin(), nearest.end());
  return {count - end, count - begin};
}

}  // namespace headrace
