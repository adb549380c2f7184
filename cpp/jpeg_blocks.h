// The quantised coefficients of a whole image.
#pragma once

#include <array>
#include <cstdint>

#include "jpeg_headers.h"

namespace headrace {

// The blocks of one component, [rows][columns][64], row-major, those that pad the last MCUs too.
struct BlockPlane {
  int16_t* blocks = nullptr;
  int32_t columns = 0, rows = 0;

  int16_t* block(int32_t row, int32_t column) const {
    return blocks + (size_t(row) * size_t(columns) + size_t(column)) * kBlockSize;
  }
};

using BlockPlanes = std::array<BlockPlane, kMaxComponents>;

// Calls visit(i, row, column) for each block of the MCUs [first, first + count) of a scan, in the
// order in which they are coded; i is the number of its component in the scan. Ends, and returns
// false, with the first call that does so.
template <typename Visit>
bool visit_blocks(const Headers& headers, int64_t first, int64_t count, Visit visit) {
  const Scan& scan = headers.scan;
  auto row = int32_t(first / scan.mcu_cols), column = int32_t(first % scan.mcu_cols);
  for (; count > 0; --count) {
    for (int i = 0; i < scan.count; ++i) {
      const Component& component = headers.components[scan.components[i].component];
      const int h = scan.count == 1 ? 1 : component.h, v = scan.count == 1 ? 1 : component.v;
      for (int y = 0; y < v; ++y)
        for (int x = 0; x < h; ++x)
          if (!visit(i, row * v + y, column * h + x)) return false;
    }
    if (++column == scan.mcu_cols) {
      column = 0;
      ++row;
    }
  }
  return true;
}

}  // namespace headrace
