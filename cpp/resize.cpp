#include "resize.h"

#include <algorithm>
#include <cstring>

#include "resize_kernels.h"
#include "simd.h"

namespace penstock {
namespace {

// The order of the passes shows in the last bit, since the rows between them are rounded to bytes.
// This is the order of Pillow 13; up to Pillow 12.1, columns always came first.
bool rows_come_first(Extent in, Extent out) {
  const int64_t lost_rows = in.height - out.height;
  const int64_t lost_columns = in.width - out.width;
  return lost_rows > 0 && lost_rows > 2 * lost_columns;
}

void copy(const Pixels& source, const Slot& slot) {
  for (int32_t y = 0; y < slot.height; ++y)
    std::memcpy(slot.row(y), source.row(y), size_t(slot.width) * 3);
}

size_t padded_size(int32_t width) { return size_t(width) * 3 + kRowPadding; }

}  // namespace

// A pass over an axis that keeps its size would change nothing: its weights are 1 and 0.
Box Resizer::prepare(Extent in, Extent full, Range columns, Range rows, Filter filter, bool flip) {
  keep_columns_ = in.width == full.width && !flip;
  keep_rows_ = in.height == full.height;
  rows_first_ = rows_come_first(in, full);
  if (!keep_columns_) {
    columns_.build(in.width, full.width, columns, filter, flip);
    columns = columns_.sources();
    columns_.shift(columns.begin);
  }
  if (!keep_rows_) {
    rows_.build(in.height, full.height, rows, filter, false);
    rows = rows_.sources();
    rows_.shift(rows.begin);
    window_.resize(size_t(rows_.pairs) * 2);
  }
  return {columns.begin, rows.begin, columns.size(), rows.size()};
}

void Resizer::resize(const Pixels& source, const Slot& slot) {
  copy_tail(source);
  if (keep_columns_ && keep_rows_)
    copy(source, slot);
  else if (keep_columns_)
    resize_rows(source, slot);
  else if (keep_rows_ || rows_first_)
    resize_columns_last(source, slot);
  else
    resize_columns_first(source, slot);
}

// The kernels read a little past the end of a row: into the next one, where there is one. Rows too
// near the end of the picture for that are copied to where there is room.
void Resizer::copy_tail(const Pixels& source) {
  const size_t bytes = size_t(source.width) * 3;
  tail_begin_ = source.height - 1;
  while (tail_begin_ > 0 && size_t(source.height - tail_begin_) * source.stride < kRowPadding)
    --tail_begin_;
  tail_.resize((source.height - tail_begin_) * padded_size(source.width));
  for (int32_t y = tail_begin_; y < source.height; ++y)
    std::memcpy(tail_.data() + (y - tail_begin_) * padded_size(source.width), source.row(y), bytes);
}

const uint8_t* Resizer::readable_row(const Pixels& source, int32_t y) const {
  if (y < tail_begin_) return source.row(y);
  return tail_.data() + (y - tail_begin_) * padded_size(source.width);
}

// Output row `y` of the vertical pass over the source.
void Resizer::resample_row(const Pixels& source, int32_t y, uint8_t* out) {
  const int32_t first = rows_.first[y], last = first + rows_.size[y] - 1;
  for (int32_t t = 0; t < rows_.pairs * 2; ++t)
    window_[t] = readable_row(source, std::min(first + t, last));
  resample_rows(window_.data(), out, size_t(source.width) * 3, rows_, y);
}

void Resizer::resize_rows(const Pixels& source, const Slot& slot) {
  for (int32_t y = 0; y < slot.height; ++y) resample_row(source, y, slot.row(y));
}

// After the rows, unless these keep their size.
void Resizer::resize_columns_last(const Pixels& source, const Slot& slot) {
  const size_t stride = padded_size(source.width);
  between_.resize(kRowGroup * stride);
  for (int32_t y = 0; y < slot.height; y += kRowGroup) {
    const uint8_t* in[kRowGroup];
    uint8_t* out[kRowGroup];
    for (int32_t i = 0; i < kRowGroup; ++i) {
      const int32_t row = std::min(y + i, slot.height - 1);
      in[i] = keep_rows_ ? readable_row(source, row) : between_.data() + i * stride;
      if (!keep_rows_) resample_row(source, row, between_.data() + i * stride);
      out[i] = slot.row(row);
    }
    resample_columns(in, out, columns_, slot.width);
  }
}

// Keeps only the rows in between that an output row needs, in a ring that fits the nearest cache.
void Resizer::resize_columns_first(const Pixels& source, const Slot& slot) {
  const int32_t ring = rows_.pairs * 2 + kRowGroup;
  const size_t stride = padded_size(slot.width);
  between_.resize(ring * stride);
  int32_t ready = 0;
  for (int32_t y = 0; y < slot.height; ++y) {
    const int32_t first = rows_.first[y], end = first + rows_.size[y];
    for (; ready < end; ready += kRowGroup) {
      const uint8_t* in[kRowGroup];
      uint8_t* out[kRowGroup];
      for (int32_t i = 0; i < kRowGroup; ++i) {
        in[i] = readable_row(source, std::min(ready + i, source.height - 1));
        out[i] = between_.data() + (ready + i) % ring * stride;
      }
      resample_columns(in, out, columns_, slot.width);
    }
    for (int32_t t = 0; t < rows_.pairs * 2; ++t)
      window_[t] = between_.data() + std::min(first + t, end - 1) % ring * stride;
    resample_rows(window_.data(), slot.row(y), size_t(slot.width) * 3, rows_, y);
  }
}

}  // namespace penstock
