// Crop-resize of planar pixels, bit-identical to Pillow 13's antialiased `Image.resize`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.h"
#include "pixels.h"
#include "resize_kernels.h"
#include "resize_taps.h"

namespace penstock {

struct Extent {
  int32_t width, height;
};

// Resizes one picture after another. Keeps its scratch memory, so that nothing is allocated once it
// is warm; one instance per thread.
class Resizer {
 public:
  // Prepares to make the part `columns` x `rows` of a picture that is resized from `in` to `full`,
  // mirrored if `flip`. The box of the source that it takes; all sizes are at least 1.
  Box prepare(Extent in, Extent full, Range columns, Range rows, Filter filter, bool flip);

  // Makes that part from the pixels under that box: RGB, rows `stride` bytes apart.
  void resize(const Planar& source, uint8_t* out, size_t stride);

 private:
  void resize_rows_first(const Planar& source, uint8_t* out, size_t stride);
  void resize_columns_first(const Planar& source, uint8_t* out, size_t stride);
  void resample_row(const Planar& source, int32_t y, uint8_t* out);

  Taps columns_, rows_;
  ColumnPass column_pass_;
  bool unchanged_ = false, rows_first_ = false;
  Buffer<uint8_t> between_, resized_;  // rows between the two passes, and after both
  std::vector<RowPair> window_;
};

}  // namespace penstock
