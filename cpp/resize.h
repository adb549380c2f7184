// Crop-resize, bit-identical to Pillow 13's antialiased `Image.resize`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.h"
#include "pixels.h"
#include "resize_kernels.h"
#include "resize_taps.h"

namespace headrace {

struct Extent {
  int32_t width, height;
};

// Pixels to resize: planar, or RGB if that is given, in rows `stride` bytes apart. Nothing is read
// behind a row of RGB; it is taken apart a few rows at a time, while they are in the cache.
struct Source {
  Planar planar;  // RGB has its size alone
  const uint8_t* rgb = nullptr;
  size_t stride = 0;

  const uint8_t* row(int32_t y) const { return rgb ? rgb + size_t(y) * stride : planar.row(y); }
  size_t row_bytes() const { return rgb ? size_t(planar.width) * 3 : planar.stride(); }
};

// Resizes one picture after another. Keeps its scratch memory, so that nothing is allocated once it
// is warm; one instance per thread.
class Resizer {
 public:
  // Prepares to make the part `columns` x `rows` of a picture that is resized from `in` to `full`,
  // mirrored if `flip`. The box of the source that it takes; all sizes are at least 1.
  Box prepare(Extent in, Extent full, Range columns, Range rows, Filter filter, bool flip);

  // Makes that part from the pixels under that box: RGB, rows `stride` bytes apart.
  void resize(const Source& source, uint8_t* out, size_t stride);

 private:
  void resize_rows_first(const Source& source, uint8_t* out, size_t stride);
  void resize_columns_first(const Source& source, uint8_t* out, size_t stride);
  Planar load_rows(const Source& source, int32_t y, int32_t count);
  void resample_row(const Source& source, int32_t y, uint8_t* out);

  Taps columns_, rows_;
  ColumnPass column_pass_;
  bool unchanged_ = false, rows_first_ = false;
  Buffer<uint8_t> loaded_, between_, resized_;  // rows before, between and after the two passes
  std::vector<RowPair> window_;
};

}  // namespace headrace
