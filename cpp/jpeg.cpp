#include "jpeg.h"

#include <algorithm>

#include "kernels.h"

namespace headrace {
namespace {

constexpr int32_t kSeekStrip = 4;  // MCU rows decoded together when a seek table allows it
constexpr size_t kKeptPlanes = 64 << 20;

// Checks that EOI follows the last scan. If another image, frame or scan begins instead, Pillow has
// to decide. Any other marker may mean damage inside the scan: that matters only if the scan was
// decoded to its end.
Status check_end(Bytes jpeg, size_t scan_end, bool all_decoded) {
  size_t at = scan_end;
  while (at < jpeg.size && jpeg.data[at] == 0xFF) ++at;
  const uint8_t marker = at < jpeg.size ? jpeg.data[at] : 0;
  if ((marker >= 0xC0 && marker <= 0xCF) || marker == 0xD8 || marker == 0xDA)
    return Status::truncated;
  if (all_decoded && at < jpeg.size && marker != 0xD9) return Status::corrupt;
  for (; at < jpeg.size; ++at)
    if (jpeg.data[at] == 0xD9 && jpeg.data[at - 1] == 0xFF) return Status::ok;
  return Status::truncated;
}

}  // namespace

void JpegDecoder::reserve(Columns columns, int32_t rows) {
  const size_t blocks =
      size_t(columns.right - columns.left) * size_t(scan_.blocks_per_mcu()) * size_t(rows);
  coefficients_.reserve(blocks * kBlockSize);
}

// Transforms the coefficients of one MCU row, which begin at `block`, to samples.
void JpegDecoder::transform_row(int32_t row, Columns columns, size_t block) {
  int16_t* base = coefficients_.data() + block * kBlockSize;
  const int per_mcu = scan_.blocks_per_mcu();
  int16_t no_block[kBlockSize] = {};
  const auto transform = kernels().inverse_dct;
  for (int i = 0; i < scan_.part_count(); ++i) {
    const ScanPart& part = scan_.part(i);
    const int16_t* quant = headers_.components[part.component].quant.data();
    const int32_t count = (columns.right - columns.left) * part.h;
    for (int y = 0; y < part.v; ++y) {
      int16_t* next = base + (part.first + y * part.h) * kBlockSize;
      int in_mcu = part.h;
      const auto next_block =
          [&] {  // intentional: a counter, since a division would cost a tenth of a transform
            int16_t* block = next;
            next += kBlockSize;
            if (--in_mcu == 0) {
              next += (per_mcu - part.h) * kBlockSize;
              in_mcu = part.h;
            }
            return block;
          };
      uint8_t* out = planes_.block(part.component, row * part.v + y, columns.left * part.h);
      const size_t stride = planes_.stride(part.component);
      for (int32_t col = 0; col < count; col += 2, out += 16) {
        int16_t* left = next_block();
        transform(left, col + 1 < count ? next_block() : no_block, quant, out, stride);
      }
    }
  }
}

// Decodes a single scan strip by strip, from the entries of the seek table or from the top.
Status JpegDecoder::decode_strips(Box box, Region region, bool seeking, const Planar& out) {
  const Columns columns{region.left, region.right};
  const int32_t height = seeking ? kSeekStrip : 1;
  const size_t row_blocks = size_t(columns.right - columns.left) * size_t(scan_.blocks_per_mcu());
  if (!seeking) {
    scan_.begin_sequential();
    const Status status = check_end(jpeg_, scan_.end(), region.bottom == scan_.mcu_rows());
    if (status != Status::ok) return status;
  }
  reserve(columns, height);
  planes_.begin(headers_, box, region, height);
  for (int32_t top = region.top; top < region.bottom; top += height) {
    const int32_t bottom = std::min(top + height, region.bottom);
    const Status status = seeking
                              ? scan_.decode_rows(seek_, top, bottom, columns, coefficients_.data())
                              : scan_.decode_row(top, columns, coefficients_.data());
    if (status != Status::ok) return status;
    planes_.move_to(top);
    for (int32_t row = top; row < bottom; ++row)
      transform_row(row, columns, row_blocks * size_t(row - top));
    planes_.write_rows(bottom, out);
  }
  return Status::ok;
}

Status JpegDecoder::decode_one_scan(Box box, Region region, Bytes seek_bytes, const Planar& out) {
  const Status begun = scan_.begin(jpeg_, headers_);
  if (begun != Status::ok) return begun;
  if (read_seek(seek_bytes, jpeg_, headers_, region.top, region.bottom, seek_)) {
    if (decode_strips(box, region, true, out) == Status::ok) return Status::ok;
    coefficients_.clear();  // retry without the table
  }
  return decode_strips(box, region, false, out);
}

// Decodes the rows of the current scan, one of several, that lie in the region.
Status JpegDecoder::decode_scan_rows(Region region) {
  const ScanPart& part = scan_.part(0);
  const Component& component = headers_.components[part.component];
  const int h = scan_.part_count() == 1 ? component.h : 1;
  const int v = scan_.part_count() == 1 ? component.v : 1;
  const Columns columns{region.left * h, std::min(region.right * h, scan_.mcu_cols())};
  reserve(columns, 1);
  Status status = Status::ok;
  scan_.begin_sequential();
  const int32_t bottom = std::min(region.bottom * v, scan_.mcu_rows());
  for (int32_t row = region.top * v; row < bottom && status == Status::ok; ++row) {
    status = scan_.decode_row(row, columns, coefficients_.data());
    if (status == Status::ok) transform_row(row, columns, 0);
  }
  return status;
}

// Decodes several scans. All of them fill the planes before the first row can be written.
Status JpegDecoder::decode_scans(Box box, Region region, const Planar& out) {
  Status status = parser_.open(jpeg_, headers_);
  const auto all_scanned = [&] {
    return std::all_of(headers_.components.begin(),
                       headers_.components.begin() + headers_.component_count,
                       [](const Component& component) { return component.scanned; });
  };
  for (bool first = true; status == Status::ok; first = false) {
    status = scan_.begin(jpeg_, headers_);
    if (status != Status::ok) break;
    if (first) planes_.begin(headers_, box, region, region.bottom - region.top);
    status = decode_scan_rows(region);
    if (status != Status::ok) break;
    if (all_scanned()) {
      status = check_end(jpeg_, scan_.end(), region.bottom == headers_.mcu_rows);
      if (status == Status::ok) planes_.write_rows(region.bottom, out);
      break;
    }
    status = parser_.next_scan(jpeg_, scan_.end(), headers_);
    if (headers_.ended) status = Status::corrupt;
  }
  planes_.trim(kKeptPlanes);
  return status;
}

// Transforms the blocks of one MCU row to samples.
void JpegDecoder::transform_progressive_row(int32_t row, Region region) {
  int16_t no_block[kBlockSize] = {};
  for (int c = 0; c < headers_.component_count; ++c) {
    const Component& component = headers_.components[c];
    const int32_t count = progressive_.columns(c);
    for (int32_t y = row * component.v; y < (row + 1) * component.v; ++y) {
      int16_t* block = progressive_.row(c, y);
      uint8_t* out = planes_.block(c, y, region.left * component.h);
      for (int32_t col = 0; col < count; col += 2, block += 2 * kBlockSize, out += 16)
        kernels().inverse_dct(block, col + 1 < count ? block + kBlockSize : no_block,
                              component.quant.data(), out, planes_.stride(c));
    }
  }
}

Status JpegDecoder::decode_progressive(Box box, Region region, const Planar& out) {
  Status status = parser_.open(jpeg_, headers_);
  if (status == Status::ok) status = progressive_.decode(jpeg_, parser_, headers_, region);
  if (status == Status::ok) {
    planes_.begin(headers_, box, region, 1);
    for (int32_t row = region.top; row < region.bottom; ++row) {
      planes_.move_to(row);
      transform_progressive_row(row, region);
      planes_.write_rows(row + 1, out);
    }
  } else {
    progressive_.clear();
  }
  progressive_.trim();
  return status;
}

Status JpegDecoder::decode(Box box, Bytes seek_bytes, const Planar& out) {
  if (opened_ != Status::ok) return opened_;
  if (!box.lies_in(headers_.width, headers_.height)) return Status::bad_box;
  const Region region = find_region(headers_, box);
  if (headers_.progressive) return decode_progressive(box, region, out);
  const Status status =
      one_scan_ ? decode_one_scan(box, region, seek_bytes, out) : decode_scans(box, region, out);
  if (status != Status::ok) coefficients_.clear();
  return status;
}

Status JpegDecoder::open(Bytes jpeg) {
  jpeg_ = jpeg;
  opened_ = parser_.open(jpeg_, headers_);
  if (headers_.arithmetic) opened_ = Status::unsupported;
  one_scan_ = headers_.single_scan();
  return opened_;
}

Status build_seek(Bytes jpeg, std::vector<uint8_t>& seek) {
  seek.clear();
  HeaderParser parser;
  Headers headers;
  Status status = parser.open(jpeg, headers);
  if (headers.arithmetic) return Status::unsupported;
  if (status != Status::ok) return status;
  if (!can_seek(headers) || too_small_to_seek(jpeg, headers)) return Status::ok;
  static thread_local ScanDecoder scan;  // keeps its tables and scratch memory
  SeekTable finest;
  finest.set_step(headers.mcu_cols, kFinestStep);
  status = scan.begin(jpeg, headers);
  if (status == Status::ok) status = scan.find_entries(finest);
  if (status == Status::ok) status = check_end(jpeg, scan.end(), true);
  if (status != Status::ok) return status;
  for (int32_t step = kFinestStep; step < finest.half + kFinestStep; step += kFinestStep)
    if (write_seek(thin_out(finest, headers, step), jpeg, headers, seek_budget(jpeg), seek)) break;
  return Status::ok;
}

}  // namespace headrace
