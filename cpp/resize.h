// Crop-resize, bit-identical to Pillow 13's antialiased `Image.resize`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.h"
#include "pixels.h"
#include "resize_taps.h"
#include "resize_weights.h"

namespace headrace {

struct Extent {
  int32_t width, height;
};

// Pixels to resize: planar, or interleaved RGB in rows `stride` bytes apart. Nothing is read behind
// a row of RGB; a few rows at a time are converted to planar, while they are in the cache.
struct Source {
  Planar planar;  // without data if `rgb` is set
  const uint8_t* rgb = nullptr;
  size_t stride = 0;

  const uint8_t* row(int32_t y) const { return rgb ? rgb + size_t(y) * stride : planar.row(y); }
  size_t row_bytes() const { return rgb ? size_t(planar.width) * 3 : planar.stride(); }
};

// What is shown of a resized image.
struct Shown {
  Extent full;  // of the resized image
  Range columns, rows;

  bool empty() const { return columns.size() == 0 || rows.size() == 0; }
};

// Resizes one image after another. Keeps its scratch memory, so that a warm resizer allocates
// nothing; use one instance per thread.
class Resizer {
 public:
  // Prepares what is shown of an image that is resized from `in`, mirrored if `flip`. Returns the
  // box of the source that it depends on. All sizes are at least 1.
  Box prepare(Extent in, const Shown& shown, Filter filter, bool flip);

  // Returns a box that contains the one that `prepare` returns, without preparing.
  static Box find_sources(Extent in, const Shown& shown, Filter filter);

  // Writes that part as RGB, in rows `stride` bytes apart, from the pixels in that box. A negative
  // stride turns it upside down, if `out` is its last row.
  void resize(const Source& source, uint8_t* out, ptrdiff_t stride);

 private:
  void resize_rows_first(const Source& source, uint8_t* out, ptrdiff_t stride);
  void resize_columns_first(const Source& source, uint8_t* out, ptrdiff_t stride);
  Planar load_rows(const Source& source, int32_t y, int32_t count);
  void resample_row(const Source& source, int32_t y, uint8_t* out);

  Taps columns_, rows_;
  ColumnPass column_pass_;
  bool unchanged_ = false, rows_first_ = false;
  Buffer<uint8_t> loaded_, between_, resized_;  // rows before, between and behind the two passes
  std::vector<RowPair> support_;                // of one output row
};

}  // namespace headrace
