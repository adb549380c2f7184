#include "resize.h"

#include <algorithm>

#include "interleave.h"

namespace headrace {
namespace {

// Rows that go through the horizontal pass together, so that they share the loads of the weights.
// Their lines are a multiple of the 16 that columns_far() takes at a time.
constexpr int32_t kRowGroup = 16;

// The order of the passes affects the last bit, because the rows between them are rounded to bytes.
// This is the order of Pillow 13; up to Pillow 12.1, columns always came first.
bool rows_come_first(Extent in, Extent out) {
  const int64_t lost_rows = in.height - out.height;
  const int64_t lost_columns = in.width - out.width;
  return lost_rows > 0 && lost_rows > 2 * lost_columns;
}

}  // namespace

// A pass over an axis that keeps its size changes nothing, since its weights are 1 and 0. So both
// passes are done unless neither is needed.
Box Resizer::prepare(Extent in, const Shown& shown, Filter filter, bool flip) {
  const Extent full = shown.full;
  Range columns = shown.columns, rows = shown.rows;
  unchanged_ = in.width == full.width && in.height == full.height && !flip;
  rows_first_ = rows_come_first(in, full);
  if (!unchanged_) {
    columns_.build(in.width, full.width, columns, filter, flip);
    columns = columns_.take_sources();
    column_pass_.prepare(columns_);
    rows_.build(in.height, full.height, rows, filter, false);
    rows = rows_.take_sources();
  }
  return {columns.begin, rows.begin, columns.size(), rows.size()};
}

Box Resizer::find_sources(Extent in, const Shown& shown, Filter filter) {
  const Range columns = Taps::find_sources(in.width, shown.full.width, shown.columns, filter);
  const Range rows = Taps::find_sources(in.height, shown.full.height, shown.rows, filter);
  return {columns.begin, rows.begin, columns.size(), rows.size()};
}

void Resizer::resize(const Source& source, uint8_t* out, ptrdiff_t stride) {
  const int32_t height = source.planar.height;
  if (unchanged_)
    for (int32_t y = 0; y < height; ++y, out += stride)
      interleave(load_rows(source, y, 1), out, stride);
  else if (!rows_first_)
    resize_columns_first(source, out, stride);
  else if (source.row_bytes() >= kLineUnit)
    resize_rows_first(source, out, stride);
  else
    resize_rows_first({load_rows(source, 0, height)}, out, stride);
}

Planar Resizer::load_rows(const Source& source, int32_t y, int32_t count) {
  if (!source.rgb) return source.planar.rows(y, count);
  const auto loaded = Planar::reserve(loaded_, source.planar.width, count, 3);
  deinterleave(source.rgb + size_t(y) * source.stride, source.stride, loaded);
  return loaded;
}

// Makes output row `y` of the vertical pass. The source is a ring: row i is also row i + height.
void Resizer::resample_row(const Source& source, int32_t y, uint8_t* out) {
  const int32_t* weights = rows_.weights_of(y);
  const int32_t height = source.planar.height;
  int32_t at = rows_.first[y] % height;  // once: a division costs as much as a pair
  support_.clear();
  for (int32_t left = rows_.size[y]; left > 0; left -= 2, weights += 2) {
    const int32_t next = at + 1 < height ? at + 1 : 0;
    support_.push_back(
        {{source.row(at), source.row(left > 1 ? next : at)}, split_weights(weights)});
    at = next + 1 < height ? next + 1 : 0;
  }
  const size_t pairs = support_.size();
  const auto kernel = kernels().rows[pairs < 4 ? pairs : 0];
  if (source.planar.spacing == 0)
    return kernel(support_.data(), int32_t(pairs), out, source.row_bytes());
  const size_t length = pad_line(source.planar.width);  // else each line of the part
  for (int32_t c = 0; c < source.planar.channels; ++c, out += length) {
    kernel(support_.data(), int32_t(pairs), out, length);
    for (RowPair& pair : support_)
      for (const uint8_t*& row : pair.rows) row += source.planar.spacing;
  }
}

void Resizer::resize_rows_first(const Source& source, uint8_t* out, ptrdiff_t stride) {
  const int32_t width = source.planar.width, channels = source.planar.channels;
  const auto between = Planar::reserve(between_, width, kRowGroup, channels);
  const auto resized = Planar::reserve(resized_, columns_.outputs, kRowGroup, channels);
  uint8_t* const mixed = source.rgb ? loaded_.reserve(source.row_bytes()) : nullptr;
  for (int32_t y = 0; y < rows_.outputs; y += kRowGroup) {
    const int32_t count = std::min(kRowGroup, rows_.outputs - y);
    for (int32_t i = 0; i < count; ++i) {
      resample_row(source, y + i, mixed ? mixed : between.row(i));
      if (mixed) deinterleave(mixed, 0, between.rows(i, 1));
    }
    column_pass_.run(between.rows(0, count), resized);
    interleave(resized.rows(0, count), out + y * stride, stride);
  }
}

// Keeps only the rows between the passes that an output row needs, in a ring that fits the cache.
void Resizer::resize_columns_first(const Source& source, uint8_t* out, ptrdiff_t stride) {
  const int32_t ring = (rows_.most + 2 * kRowGroup - 2) / kRowGroup * kRowGroup;
  const int32_t height = source.planar.height, channels = source.planar.channels;
  const auto between = Planar::reserve(between_, columns_.outputs, ring, channels);
  const auto resized = Planar::reserve(resized_, columns_.outputs, 1, channels);
  int32_t ready = 0;
  for (int32_t y = 0; y < rows_.outputs; ++y, out += stride) {
    for (; ready < rows_.first[y] + rows_.size[y]; ready += kRowGroup) {
      const int32_t count = std::min(kRowGroup, height - ready);
      column_pass_.run(load_rows(source, ready, count), between.rows(ready % ring, count));
    }
    resample_row({between}, y, resized.data);
    interleave(resized, out, stride);
  }
}

}  // namespace headrace
