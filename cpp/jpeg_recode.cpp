#include "jpeg_recode.h"

#include <algorithm>
#include <cstring>

#include "jpeg_encode.h"
#include "jpeg_markers.h"

namespace headrace {
namespace {

constexpr size_t kKeptBytes = 64 << 20;

// Appends the application segments of a file whose first scan begins at `end`. Returns false if one
// of them has offsets into the file, which would be wrong.
bool copy_segments(Bytes jpeg, size_t end, std::vector<uint8_t>& out) {
  for (size_t at = 2; at + 4 <= end;) {
    const uint8_t marker = jpeg.data[at + 1];
    if (marker == 0xFF) {  // a fill byte
      ++at;
      continue;
    }
    const auto length = size_t(read_u16(jpeg.data + at + 2));
    const Bytes segment{jpeg.data + at + 4, length - 2};
    if (marker == APP2 && begins_with(segment, "MPF")) return false;
    if (is_application(marker)) out.insert(out.end(), jpeg.data + at, jpeg.data + at + 2 + length);
    at += 2 + length;
  }
  return true;
}

}  // namespace

// Lays out the blocks of all components in coefficients_.
Status Recoder::reserve() {
  size_t blocks = 0;
  for (int c = 0; c < headers_.component_count; ++c) {
    planes_[c].columns = headers_.mcu_cols * headers_.components[c].h;
    planes_[c].rows = headers_.mcu_rows * headers_.components[c].v;
    blocks += size_t(planes_[c].columns) * size_t(planes_[c].rows);
  }
  used_ = blocks * kBlockSize;
  if (used_ * sizeof(int16_t) > ProgressiveDecoder::kMaxBytes) {
    used_ = 0;
    return Status::unsupported;
  }
  int16_t* next = coefficients_.reserve(used_);
  for (int c = 0; c < headers_.component_count; ++c) {
    planes_[c].blocks = next;
    next += size_t(planes_[c].columns) * size_t(planes_[c].rows) * kBlockSize;
  }
  return Status::ok;
}

// Calls visit(component, row, column, coefficients) for all blocks of the current scan of a
// sequential file with Huffman codes; corrupt if a call returns false.
template <typename Visit>
Status Recoder::visit_scan(Bytes jpeg, const Headers& headers, Visit visit) {
  Status status = scan_.begin(jpeg, headers);
  if (status != Status::ok) return status;
  const int32_t columns = scan_.mcu_cols();
  const size_t size = size_t(columns) * size_t(scan_.blocks_per_mcu()) * kBlockSize;
  int16_t* row = row_.reserve(size);
  scan_.begin_sequential();
  for (int32_t y = 0; y < scan_.mcu_rows() && status == Status::ok; ++y) {
    status = scan_.decode_row(y, {0, columns}, row);
    const int16_t* next = row - kBlockSize;
    const auto visit_next = [&](int i, int32_t block_row, int32_t column) {
      next += kBlockSize;
      return visit(headers.scan.components[i].component, block_row, column, next);
    };
    if (status == Status::ok && !visit_blocks(headers, int64_t(y) * columns, columns, visit_next))
      status = Status::corrupt;
    std::memset(row, 0, size * sizeof(int16_t));
  }
  return status;
}

Status Recoder::read_scans(Bytes jpeg) {
  Status status = Status::ok;
  while (status == Status::ok && !headers_.ended) {
    status = visit_scan(jpeg, headers_, [&](int c, int32_t row, int32_t column, auto* block) {
      std::copy_n(block, kBlockSize, planes_[c].block(row, column));
      return true;
    });
    if (status == Status::ok) status = parser_.next_scan(jpeg, scan_.end(), headers_);
  }
  return status;
}

Status Recoder::read_blocks(Bytes jpeg) {
  if (headers_.progressive && !headers_.arithmetic) {
    const Region all{0, 0, headers_.mcu_cols, headers_.mcu_rows};
    const Status status = progressive_.decode(jpeg, parser_, headers_, all);
    for (int c = 0; c < headers_.component_count; ++c) planes_[c] = progressive_.blocks(c);
    return status;
  }
  const Status status = reserve();
  if (status != Status::ok) return status;
  return headers_.arithmetic ? arithmetic_.decode(jpeg, parser_, headers_, planes_)
                             : read_scans(jpeg);
}

// Returns whether a recoded file has the blocks that were read.
bool Recoder::has_blocks(Bytes recoded) {
  HeaderParser parser;
  Headers headers;
  if (parser.open(recoded, headers) != Status::ok || !headers.single_scan() ||
      headers.color != headers_.color)
    return false;
  for (int c = 0; c < headers.component_count; ++c)
    if (headers.components[c].quant != headers_.components[c].quant) return false;
  const Status status =
      visit_scan(recoded, headers, [&](int c, int32_t row, int32_t column, auto* block) {
        const Component& component = headers.components[c];
        const bool padding = row >= component.block_rows || column >= component.block_cols;
        return padding || std::equal(block, block + kBlockSize, planes_[c].block(row, column));
      });
  return status == Status::ok;
}

void Recoder::clear() {
  progressive_.clear();
  progressive_.trim();
  if (used_ > 0) std::memset(coefficients_.data(), 0, used_ * sizeof(int16_t));
  used_ = 0;
  coefficients_.trim(kKeptBytes);
}

Status Recoder::recode(Bytes jpeg, std::vector<uint8_t>& out) {
  out.clear();
  Status status = parser_.open(jpeg, headers_);
  if (status != Status::ok) return status;
  if (headers_.single_scan()) return Status::unsupported;
  out.assign({0xFF, SOI});
  if (!copy_segments(jpeg, headers_.scan.data, out)) return Status::unsupported;
  status = read_blocks(jpeg);
  const bool scanned = std::all_of(headers_.components.begin(),
                                   headers_.components.begin() + headers_.component_count,
                                   [](const Component& component) { return component.scanned; });
  if (status == Status::ok &&
      (!scanned || headers_.late_segments || !encode_baseline(headers_, planes_, out)))
    status = Status::unsupported;
  if (status == Status::ok) {
    out.insert(out.end(), {0xFF, EOI});
    out.insert(out.end(), jpeg.data + parser_.position(), jpeg.data + jpeg.size);
    if (!has_blocks({out.data(), out.size()})) status = Status::unsupported;
  }
  clear();
  return status;
}

}  // namespace headrace
