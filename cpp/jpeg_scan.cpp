#include "jpeg_scan.h"

#include <algorithm>
#include <cstring>

#include "kernels.h"

namespace headrace {

Status ScanDecoder::begin(Bytes jpeg, const Headers& headers) {
  const Scan& scan = headers.scan;
  stream_.trim();
  jpeg_ = jpeg;
  start_ = scan.data;
  restart_interval_ = headers.restart_interval;
  part_count_ = scan.count;
  layout_.count = 0;
  for (int i = 0; i < scan.count; ++i) {
    const ScanComponent& entry = scan.components[i];
    const Component& component = headers.components[entry.component];
    ScanPart& part = parts_[i];
    part = {entry.component, component.h, component.v, layout_.count};
    if (scan.count == 1) part.h = part.v = 1;
    for (int b = 0; b < part.h * part.v; ++b) {
      McuLayout::Block* block = layout_.blocks + layout_.count++;
      *block = {&dc_[entry.dc_slot].table, &ac_[entry.ac_slot].table, block + 1, part.component};
    }
  }
  layout_.blocks[layout_.count - 1].next = layout_.blocks;
  mcu_cols_ = scan.mcu_cols;
  mcu_rows_ = scan.mcu_rows;
  return build_tables(headers);
}

Status ScanDecoder::build_tables(const Headers& headers) {
  const auto update = [](const HuffmanSpec& spec, auto& built, auto build) {
    if (built.spec == spec) return Status::ok;
    const Status status = build(spec, built.table);
    built.spec = status == Status::ok ? spec : HuffmanSpec();
    return status;
  };
  for (int i = 0; i < part_count_; ++i) {
    const ScanComponent& entry = headers.scan.components[i];
    Status status = update(headers.dc[entry.dc_slot], dc_[entry.dc_slot], build_dc_table);
    if (status == Status::ok)
      status = update(headers.ac[entry.ac_slot], ac_[entry.ac_slot], build_ac_table);
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

void ScanDecoder::begin_sequential() {
  const int64_t mcus = int64_t(mcu_cols_) * mcu_rows_;
  stream_.read(jpeg_, start_,
               restart_interval_ ? (mcus + restart_interval_ - 1) / restart_interval_ : 1);
  mcu_ = 0;
  span_ = Span();
  span_.end = stream_.segments()[0].end * 8;
}

Status ScanDecoder::decode_mcus(int32_t skip, int32_t keep, int16_t* coefficients) {
  span_.skip = skip;
  span_.keep = keep;
  span_.coefficients = coefficients;
  mcu_ += skip + keep;
  const Status status = kernels().decode_spans(layout_, stream_.data(), &span_, 1);
  return status == Status::truncated ? stream_.lack_of_data() : status;
}

Status ScanDecoder::decode_row(int32_t row, Columns columns, int16_t* coefficients) {
  int64_t target = int64_t(row) * mcu_cols_ + columns.left;
  const int64_t end = target + columns.right - columns.left;
  const int64_t interval = restart_interval_ ? restart_interval_ : int64_t(mcu_cols_) * mcu_rows_;
  while (mcu_ < end) {
    if (restart_interval_ != 0 && (mcu_ % interval == 0 || target / interval > mcu_ / interval)) {
      // A restart marker is an entry point: skip to the last one before the target.
      const auto segment = size_t(std::max(target, mcu_) / interval);
      if (segment >= stream_.segments().size()) return stream_.lack_of_data();
      mcu_ = int64_t(segment) * interval;
      span_ = Span();
      span_.bit = stream_.segments()[segment].begin * 8;
      span_.end = stream_.segments()[segment].end * 8;
    }
    const int64_t stop = std::min(end, (mcu_ / interval + 1) * interval);
    const auto skip = int32_t(std::max<int64_t>(target - mcu_, 0));
    const auto keep = int32_t(stop - mcu_ - skip);
    const Status status = decode_mcus(skip, keep, coefficients);
    if (status != Status::ok) return status;
    coefficients += size_t(keep) * layout_.count * kBlockSize;
    target = mcu_;
  }
  return Status::ok;
}

// Adds the spans of one row: one up to the last entry that the columns reach, where the decoder
// must agree with the table, and the rest. They are unstuffed one behind the other, so that bit
// positions can be compared.
bool ScanDecoder::add_row(const SeekTable& table, int32_t row, Columns columns,
                          int16_t* coefficients, uint8_t*& stream) {
  const int32_t stop = table.find(columns.right - 1) + 1;
  const int32_t reached = columns.right == mcu_cols_ ? stop : table.find(columns.right);
  const size_t base = size_t(row) * table.per_row;
  const size_t row_span = spans_.size();
  for (int32_t i = table.find(columns.left), end; i < stop; i = end) {
    end = i < reached ? reached : stop;
    const SeekEntry& entry = table.entries[base + i];
    const bool has_next = base + end < table.entries.size();
    const size_t from = entry.bit / 8;
    const size_t to = has_next ? table.entries[base + end].bit / 8 : data().size;
    if (to < from) return false;
    const Unstuffed part = kernels().unstuff({data().data + from, to - from}, stream);
    if (has_next && part.read != to - from) return false;
    Span span;
    const auto begin = uint64_t(stream - stream_.data()) * 8;
    span.bit = begin + (entry.bit & 7);
    std::copy_n(entry.predictors, kMaxComponents, span.predictors);
    span.skip = std::max(columns.left - table.column(i), 0);
    span.keep = std::min(table.column(end), columns.right) - table.column(i) - span.skip;
    span.coefficients = coefficients;
    stream += part.written;
    coefficients += size_t(span.keep) * layout_.count * kBlockSize;
    spans_.push_back(span);
    Check check{0, nullptr};
    if (has_next && end == reached) {
      check.entry = &table.entries[base + end];
      check.bit = begin + part.written * 8 + (check.entry->bit & 7);
    }
    checks_.push_back(check);
    if (has_next && end == stop)  // the byte shared with the next row
      stream += kernels()
                    .unstuff({data().data + to, std::min<size_t>(2, data().size - to)}, stream)
                    .written;
  }
  for (size_t i = row_span; i < spans_.size(); ++i)
    spans_[i].end = uint64_t(stream - stream_.data()) * 8;
  return true;
}

Status ScanDecoder::decode_rows(const SeekTable& table, int32_t top, int32_t bottom,
                                Columns columns, int16_t* coefficients) {
  spans_.clear();
  checks_.clear();
  const size_t first = size_t(top) * table.per_row, stop = size_t(bottom) * table.per_row;
  const size_t from = table.entries[first].bit / 8;
  const size_t to = stop < table.entries.size() ? table.entries[stop].bit / 8 : data().size;
  if (to < from || to > data().size) return Status::corrupt;
  uint8_t* stream = stream_.reserve(to - from + 4 * size_t(bottom - top) + kSpanPadding);
  const size_t row_blocks = size_t(columns.right - columns.left) * size_t(layout_.count);
  for (int32_t row = top; row < bottom; ++row) {
    const size_t block = row_blocks * size_t(row - top);
    if (!add_row(table, row, columns, coefficients + block * kBlockSize, stream))
      return Status::corrupt;
  }
  std::memset(stream, 0, kSpanPadding);
  const Status status =
      kernels().decode_spans(layout_, stream_.data(), spans_.data(), int(spans_.size()));
  if (status != Status::ok) return status;
  for (size_t i = 0; i < spans_.size(); ++i) {
    const SeekEntry* entry = checks_[i].entry;
    if (entry == nullptr) continue;
    if (spans_[i].bit != checks_[i].bit ||
        !std::equal(entry->predictors, entry->predictors + part_count_, spans_[i].predictors))
      return Status::corrupt;
  }
  return Status::ok;
}

Status ScanDecoder::find_entries(SeekTable& table) {
  Status status = Status::ok;
  begin_sequential();
  table.entries.clear();
  for (int32_t row = 0; row < mcu_rows_ && status == Status::ok; ++row)
    for (int32_t i = 0; i < table.per_row && status == Status::ok; ++i) {
      SeekEntry entry;
      entry.bit = span_.bit;
      std::copy_n(span_.predictors, kMaxComponents, entry.predictors);
      table.entries.push_back(entry);
      const int32_t end = std::min(table.column(i + 1), mcu_cols_);
      status = decode_mcus(end - table.column(i), 0, nullptr);
    }
  if (status == Status::ok) restore_stuffing(table);
  return status;
}

// Adds the zeros stuffed before each entry: bits were counted in the unstuffed data.
void ScanDecoder::restore_stuffing(SeekTable& table) const {
  const uint8_t *stream = stream_.data(), *at = stream;
  uint64_t stuffed = 0;
  for (SeekEntry& entry : table.entries) {
    const uint8_t* stop = stream + entry.bit / 8;
    stuffed += uint64_t(std::count(at, stop, 0xFF));
    at = stop;
    entry.bit += 8 * stuffed;
  }
}

}  // namespace headrace
