#include "orient.h"

#include <algorithm>
#include <utility>

namespace headrace {
namespace {

constexpr int32_t kTile = 32;  // pixels: a tile of both pictures fits into the L1 cache

bool mirrors_columns(uint8_t orientation) {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

bool mirrors_rows(uint8_t orientation) {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

}  // namespace

Box find_stored(Box upright, uint8_t orientation, int32_t width, int32_t height) {
  Box box = upright;
  if (swaps_sides(orientation)) {
    std::swap(box.left, box.top);
    std::swap(box.width, box.height);
  }
  if (mirrors_columns(orientation)) box.left = width - box.left - box.width;
  if (mirrors_rows(orientation)) box.top = height - box.top - box.height;
  return box;
}

void turn_upright(const Source& stored, uint8_t orientation, const Planar& upright) {
  const bool swap = swaps_sides(orientation);
  const int32_t width = swap ? upright.height : upright.width;
  const int32_t height = swap ? upright.width : upright.height;
  const ptrdiff_t pixel = stored.rgb ? 3 : 1;
  const size_t channel = stored.rgb ? 1 : stored.planar.line();
  // Steps in the stored picture that belong to a step to the right in the upright one.
  const auto row_bytes = ptrdiff_t(stored.rgb ? stored.stride : stored.planar.stride());
  const ptrdiff_t along = mirrors_columns(orientation) ? -pixel : pixel;
  const ptrdiff_t across = mirrors_rows(orientation) ? -row_bytes : row_bytes;
  const uint8_t* origin = stored.row(mirrors_rows(orientation) ? height - 1 : 0) +
                          (mirrors_columns(orientation) ? (width - 1) * pixel : 0);
  const ptrdiff_t x_step = swap ? across : along, y_step = swap ? along : across;
  for (int32_t top = 0; top < upright.height; top += kTile)
    for (int32_t left = 0; left < upright.width; left += kTile) {
      const int32_t bottom = std::min(top + kTile, upright.height);
      const int32_t right = std::min(left + kTile, upright.width);
      for (int32_t y = top; y < bottom; ++y)
        for (int c = 0; c < upright.channels; ++c) {
          uint8_t* out = upright.row(y) + upright.line() * size_t(c);
          const uint8_t* in = origin + y * y_step + size_t(c) * channel;
          for (int32_t x = left; x < right; ++x) out[x] = in[x * x_step];
        }
    }
}

}  // namespace headrace
