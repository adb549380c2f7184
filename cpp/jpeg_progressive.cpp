#include "jpeg_progressive.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels.h"

namespace headrace {
namespace {

constexpr size_t kKeptBytes = 64 << 20;

}  // namespace

Status ProgressiveDecoder::reserve(const Headers& headers, Region region) {
  region_ = region;
  progression_.begin();
  size_t blocks = 0, masks = 0;
  for (int c = 0; c < headers.component_count; ++c) {
    const Component& component = headers.components[c];
    Plane& plane = planes_[c];
    plane.left = region.left * component.h;
    plane.top = region.top * component.v;
    plane.columns = (region.right - region.left) * component.h;
    plane.rows = (region.bottom - region.top) * component.v;
    plane.all_columns = component.block_cols;
    blocks += size_t(plane.columns) * size_t(plane.rows);
    masks += size_t(plane.all_columns) * size_t(plane.top + plane.rows);
  }
  if (blocks * kBlockSize * sizeof(int16_t) + masks * sizeof(uint64_t) > kMaxBytes)
    return Status::unsupported;
  used_ = blocks * kBlockSize;
  int16_t* coefficients = coefficients_.reserve(used_);
  uint64_t* nonzero = nonzero_.reserve(masks);
  std::memset(nonzero, 0, masks * sizeof(uint64_t));
  for (int c = 0; c < headers.component_count; ++c) {
    Plane& plane = planes_[c];
    plane.coefficients = coefficients;
    plane.nonzero = nonzero;
    coefficients += size_t(plane.columns) * size_t(plane.rows) * kBlockSize;
    nonzero += size_t(plane.all_columns) * size_t(plane.top + plane.rows);
  }
  dc_values_.reserve(size_t(headers.mcu_cols) * size_t(headers.max_h) * kMaxBlocksPerMcu);
  return Status::ok;
}

int16_t* ProgressiveDecoder::row(int c, int32_t block_row) const {
  const Plane& plane = planes_[c];
  return plane.coefficients + size_t(block_row - plane.top) * size_t(plane.columns) * kBlockSize;
}

BlockPlane ProgressiveDecoder::blocks(int c) const {
  return {planes_[c].coefficients, planes_[c].columns, planes_[c].rows};
}

void ProgressiveDecoder::clear() {
  if (used_ > 0) std::memset(coefficients_.data(), 0, used_ * sizeof(int16_t));
}

void ProgressiveDecoder::trim() {
  used_ = 0;
  coefficients_.trim(kKeptBytes);
  nonzero_.trim(kKeptBytes);
  stream_.trim();
}

void ProgressiveDecoder::add_parts(const Headers& headers) {
  const Scan& scan = headers.scan;
  part_count_ = scan.count;
  dc_.blocks = 0;
  for (int i = 0; i < scan.count; ++i) {
    const ScanComponent& entry = scan.components[i];
    const Component& component = headers.components[entry.component];
    parts_[i] = {entry.component, component.h, component.v, dc_.blocks};
    if (scan.count == 1) parts_[i].h = parts_[i].v = 1;
    for (int b = 0; b < parts_[i].h * parts_[i].v; ++b) {
      dc_.component[dc_.blocks] = entry.component;
      dc_.tables[dc_.blocks++] = &dc_tables_[entry.dc_slot & 3];
    }
  }
}

Status ProgressiveDecoder::build_dc_tables(const Headers& headers) {
  unsigned built = 0;
  for (int i = 0; i < headers.scan.count; ++i) {
    const int slot = headers.scan.components[i].dc_slot;
    if (built & 1u << slot) continue;
    built |= 1u << slot;
    const Status status = build_dc_table(headers.dc[slot], dc_tables_[slot]);
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

// Moves on to the data behind the next restart marker, or to the first data.
Status ProgressiveDecoder::begin_interval() {
  if (segment_ == stream_.segments().size()) return Status::truncated;
  const ScanStream::Segment& segment = stream_.segments()[segment_++];
  *span_ = {stream_.data(), segment.begin * 8, segment.end * 8};
  interval_left_ = interval_;
  std::fill_n(dc_.predictors, kMaxComponents, 0);
  band_.end_run = 0;
  return Status::ok;
}

// Calls decode(first, count) for the next `count` MCUs, for those of each restart interval.
template <typename Decode>
Status ProgressiveDecoder::decode_mcus(int32_t count, Decode decode) {
  for (int32_t at = 0; at < count;) {
    Status status = interval_left_ == 0 ? begin_interval() : Status::ok;
    if (status != Status::ok) return status;
    const auto part = int32_t(std::min<int64_t>(count - at, interval_left_));
    status = decode(at, part);
    if (status != Status::ok) return status;
    interval_left_ -= part;
    at += part;
  }
  return Status::ok;
}

// Writes the next bit of each block of some MCUs.
void ProgressiveDecoder::read_bits(int32_t mcus, int32_t* out) {
  const uint64_t end = dc_.span.bit + uint64_t(mcus) * uint64_t(dc_.blocks);
  for (uint64_t bit = dc_.span.bit; bit < end; ++bit)
    *out++ = dc_.span.data[bit >> 3] >> (~bit & 7) & 1;
}

// Stores the DC coefficients of a row of MCUs, or their next bits, as far as they lie in the
// region.
void ProgressiveDecoder::store_dc(int32_t mcu_row, const Scan& scan) {
  for (int i = 0; i < part_count_; ++i) {
    const Part& part = parts_[i];
    const Plane& plane = planes_[part.component];
    const int32_t left = plane.left / part.h;
    const int32_t right = std::min(left + plane.columns / part.h, scan.mcu_cols);
    for (int y = 0; y < part.v; ++y) {
      int16_t* block = row(part.component, mcu_row * part.v + y);
      const int32_t* values = dc_values_.data() + left * dc_.blocks + part.first + y * part.h;
      for (int32_t mcu = left; mcu < right; ++mcu, values += dc_.blocks)
        for (int x = 0; x < part.h; ++x, block += kBlockSize) {
          const auto bits = uint32_t(values[x]) << scan.low;
          *block = int16_t(scan.low_before == 0 ? bits : *block | bits);
        }
    }
  }
}

Status ProgressiveDecoder::decode_dc_scan(const Headers& headers) {
  const Scan& scan = headers.scan;
  const bool refining = scan.low_before > 0;
  add_parts(headers);
  Status status = refining ? Status::ok : build_dc_tables(headers);
  span_ = &dc_.span;
  const Plane& plane = planes_[parts_[0].component];
  const int32_t top = scan.count > 1 ? region_.top : plane.top;
  const int32_t bottom = scan.count > 1 ? region_.bottom : plane.top + plane.rows;
  for (int32_t row = 0; row < std::min(bottom, scan.mcu_rows) && status == Status::ok; ++row) {
    status = decode_mcus(scan.mcu_cols, [&](int32_t first, int32_t count) {
      int32_t* out = dc_values_.data() + size_t(first) * size_t(dc_.blocks);
      if (!refining) return kernels().decode_dc(dc_, count, out);
      const uint64_t bits = uint64_t(count) * uint64_t(dc_.blocks);
      if (bits > dc_.span.end - dc_.span.bit) return Status::truncated;
      if (row >= top) read_bits(count, out);
      dc_.span.bit += bits;
      return Status::ok;
    });
    if (row >= top && status == Status::ok) store_dc(row, scan);
  }
  return status;
}

Status ProgressiveDecoder::decode_band_scan(const Headers& headers) {
  const Scan& scan = headers.scan;
  const int c = scan.components[0].component;
  const bool refining = scan.low_before > 0;
  band_.first = scan.first;
  band_.last = scan.last;
  band_.low = scan.low;
  Status status =
      build_band_table(headers.ac[scan.components[0].ac_slot], scan.low, refining, band_.table);
  span_ = &band_.span;
  const Plane& plane = planes_[c];
  const auto decode = refining ? kernels().refine_band : kernels().decode_band;
  const int32_t bottom = std::min(plane.top + plane.rows, scan.mcu_rows);
  const int32_t right = std::min(plane.left + plane.columns, scan.mcu_cols);
  for (int32_t row = 0; row < bottom && status == Status::ok; ++row) {
    uint64_t* nonzero = plane.nonzero + size_t(row) * size_t(plane.all_columns);
    const auto decode_columns = [&](int32_t begin, int32_t end, int16_t* wanted) {
      if (status != Status::ok) return;
      status = decode_mcus(end - begin, [&](int32_t first, int32_t count) {
        int16_t* coefficients = wanted ? wanted + size_t(first) * kBlockSize : nullptr;
        return decode(band_, {count, coefficients, nonzero + begin + first});
      });
    };
    if (row < plane.top) {
      decode_columns(0, scan.mcu_cols, nullptr);
    } else {
      decode_columns(0, plane.left, nullptr);
      decode_columns(plane.left, right, this->row(c, row));
      decode_columns(right, scan.mcu_cols, nullptr);
    }
  }
  return status;
}

Status ProgressiveDecoder::decode_scan(Bytes jpeg, const Headers& headers) {
  const Scan& scan = headers.scan;
  const int64_t mcus = int64_t(scan.mcu_cols) * scan.mcu_rows;
  interval_ = headers.restart_interval > 0 ? headers.restart_interval : mcus;
  interval_left_ = 0;
  segment_ = 0;
  stream_.read(jpeg, scan.data, (mcus + interval_ - 1) / interval_);
  const Status status = scan.first == 0 ? decode_dc_scan(headers) : decode_band_scan(headers);
  return status == Status::truncated ? stream_.lack_of_data() : status;
}

Status ProgressiveDecoder::decode(Bytes jpeg, HeaderParser& parser, Headers& headers,
                                  Region region) {
  Status status = reserve(headers, region);
  while (status == Status::ok && !headers.ended) {
    status = progression_.add(headers.scan);
    if (status == Status::ok) status = decode_scan(jpeg, headers);
    if (status == Status::ok) status = parser.next_scan(jpeg, stream_.end(), headers);
  }
  if (status == Status::ok && !progression_.is_complete(headers.component_count))
    return Status::unsupported;
  return status;
}

}  // namespace headrace
