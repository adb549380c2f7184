#include "jpeg.h"

#include <algorithm>
#include <chrono>

#include "buffer.h"
#include "jpeg_headers.h"
#include "jpeg_idct.h"
#include "jpeg_planes.h"
#include "jpeg_scan.h"
#include "jpeg_seek.h"

namespace headrace {
namespace {

constexpr int32_t kSeekStrip = 4;  // MCU rows decoded together when a seek table allows it
constexpr size_t kKeptPlanes = 64 << 20;

// EOI has to follow the last scan. Where another picture, frame or scan begins instead, Pillow is
// the judge. Other markers may mean damage inside the scan, which matters only where it is decoded:
// they are left to Pillow if all of it was, to the end.
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

// Adds the time since the last call to one of the stages.
class Stopwatch {
 public:
  void begin(JpegStages* stages) {
    stages_ = stages;
    if (stages != nullptr) last_ = Clock::now();
  }
  void add_to(int64_t JpegStages::* stage) {
    if (stages_ == nullptr) return;
    const auto now = Clock::now();
    stages_->*stage += std::chrono::nanoseconds(now - last_).count();
    last_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  JpegStages* stages_ = nullptr;
  Clock::time_point last_;
};

}  // namespace

struct JpegDecoder::State {
  Bytes jpeg;
  HeaderParser parser;
  Headers headers;
  Status opened = Status::unsupported;

  ScanDecoder scan;
  SeekTable seek;
  Planes planes;
  Buffer<int16_t> coefficients;
  InverseDct transform = nullptr;
  JpegStages* stages = nullptr;
  Stopwatch stopwatch;

  Status decode(Box box, Bytes seek_bytes, const Planar& out);
  Status decode_one_scan(Box box, Region region, Bytes seek_bytes, const Planar& out);
  Status decode_strips(Box box, Region region, bool seeking, const Planar& out);
  Status decode_scans(Box box, Region region, const Planar& out);
  Status decode_scan_rows(Region region);
  void reserve(Columns columns, int32_t rows);
  void transform_row(int32_t row, Columns columns, size_t block);
};

void JpegDecoder::State::reserve(Columns columns, int32_t rows) {
  const size_t blocks =
      size_t(columns.right - columns.left) * size_t(scan.blocks_per_mcu()) * size_t(rows);
  coefficients.reserve_zeroed(blocks * kBlockSize);
}

// Coefficients of one MCU row, which begin at `block`, to samples.
void JpegDecoder::State::transform_row(int32_t row, Columns columns, size_t block) {
  int16_t* base = coefficients.data() + block * kBlockSize;
  const int per_mcu = scan.blocks_per_mcu();
  int16_t nothing[kBlockSize] = {};
  for (int i = 0; i < scan.part_count(); ++i) {
    const ScanPart& part = scan.part(i);
    const int16_t* quant = headers.components[part.component].quant.data();
    const int32_t count = (columns.right - columns.left) * part.h;
    for (int y = 0; y < part.v; ++y) {
      int16_t* next = base + (part.first + y * part.h) * kBlockSize;
      int in_mcu = part.h;
      const auto next_block = [&] {  // counted: a division would cost a tenth of a transform
        int16_t* block = next;
        next += kBlockSize;
        if (--in_mcu == 0) {
          next += (per_mcu - part.h) * kBlockSize;
          in_mcu = part.h;
        }
        return block;
      };
      uint8_t* out = planes.block(part.component, row * part.v + y, columns.left * part.h);
      const size_t stride = planes.stride(part.component);
      for (int32_t col = 0; col < count; col += 2, out += 16) {
        int16_t* left = next_block();
        transform(left, col + 1 < count ? next_block() : nothing, quant, out, stride);
      }
    }
  }
}

// All components in one scan: strip by strip, through the entries of `seek` or from the top down.
Status JpegDecoder::State::decode_strips(Box box, Region region, bool seeking, const Planar& out) {
  const Columns columns{region.left, region.right};
  const int32_t height = seeking ? kSeekStrip : 1;
  const size_t row_blocks = size_t(columns.right - columns.left) * size_t(scan.blocks_per_mcu());
  if (!seeking) {
    scan.begin_sequential();
    const Status status = check_end(jpeg, scan.end(), region.bottom == scan.mcu_rows());
    if (status != Status::ok) return status;
  }
  reserve(columns, height);
  planes.begin(headers, box, region, height);
  for (int32_t top = region.top; top < region.bottom; top += height) {
    const int32_t bottom = std::min(top + height, region.bottom);
    const Status status = seeking
                              ? scan.decode_rows(seek, top, bottom, columns, coefficients.data())
                              : scan.decode_row(top, columns, coefficients.data());
    if (status != Status::ok) return status;
    stopwatch.add_to(&JpegStages::entropy_ns);
    planes.move_to(top);
    for (int32_t row = top; row < bottom; ++row)
      transform_row(row, columns, row_blocks * size_t(row - top));
    planes.write_rows(bottom, out);
    stopwatch.add_to(&JpegStages::pixels_ns);
  }
  return Status::ok;
}

Status JpegDecoder::State::decode_one_scan(Box box, Region region, Bytes seek_bytes,
                                           const Planar& out) {
  const Status begun = scan.begin(jpeg, headers);
  if (begun != Status::ok) return begun;
  if (read_seek(seek_bytes, jpeg, headers, region.top, region.bottom, seek)) {
    if (decode_strips(box, region, true, out) == Status::ok) return Status::ok;
    coefficients.clear();  // then without the table
  }
  return decode_strips(box, region, false, out);
}

// The rows of the current scan, one of several, that lie in the region.
Status JpegDecoder::State::decode_scan_rows(Region region) {
  const ScanPart& part = scan.part(0);
  const Component& component = headers.components[part.component];
  const int h = scan.part_count() == 1 ? component.h : 1;
  const int v = scan.part_count() == 1 ? component.v : 1;
  const Columns columns{region.left * h, std::min(region.right * h, scan.mcu_cols())};
  reserve(columns, 1);
  Status status = Status::ok;
  scan.begin_sequential();
  const int32_t bottom = std::min(region.bottom * v, scan.mcu_rows());
  for (int32_t row = region.top * v; row < bottom && status == Status::ok; ++row) {
    status = scan.decode_row(row, columns, coefficients.data());
    if (status == Status::ok) transform_row(row, columns, 0);
  }
  return status;
}

// Several scans: the planes of the whole box are filled before the first row can be written.
Status JpegDecoder::State::decode_scans(Box box, Region region, const Planar& out) {
  Status status = parser.open(jpeg, headers);
  const auto all_scanned = [&] {
    return std::all_of(headers.components.begin(),
                       headers.components.begin() + headers.component_count,
                       [](const Component& component) { return component.scanned; });
  };
  for (bool first = true; status == Status::ok; first = false) {
    status = scan.begin(jpeg, headers);
    if (status != Status::ok) break;
    if (first) planes.begin(headers, box, region, region.bottom - region.top);
    status = decode_scan_rows(region);
    if (status != Status::ok) break;
    if (all_scanned()) {
      status = check_end(jpeg, scan.end(), region.bottom == headers.mcu_rows);
      if (status == Status::ok) planes.write_rows(region.bottom, out);
      break;
    }
    status = parser.next_scan(jpeg, scan.end(), headers);
  }
  planes.trim(kKeptPlanes);
  return status;
}

Status JpegDecoder::State::decode(Box box, Bytes seek_bytes, const Planar& out) {
  if (opened != Status::ok) return opened;
  if (!box.lies_in(headers.width, headers.height)) return Status::bad_box;
  transform = inverse_dct();
  stopwatch.begin(stages);
  const Region region = find_region(headers, box);
  const Status status = headers.single_scan() ? decode_one_scan(box, region, seek_bytes, out)
                                              : decode_scans(box, region, out);
  if (status != Status::ok) coefficients.clear();
  return status;
}

JpegDecoder::JpegDecoder() : state_(new State) {}
JpegDecoder::~JpegDecoder() { delete state_; }

Status JpegDecoder::open(Bytes jpeg) {
  state_->jpeg = jpeg;
  state_->opened = state_->parser.open(jpeg, state_->headers);
  return state_->opened;
}

int32_t JpegDecoder::width() const { return state_->headers.width; }
int32_t JpegDecoder::height() const { return state_->headers.height; }
int32_t JpegDecoder::channels() const { return state_->headers.component_count; }

Status JpegDecoder::decode(Box box, Bytes seek, const Planar& out) {
  return state_->decode(box, seek, out);
}

void JpegDecoder::measure(JpegStages* stages) { state_->stages = stages; }

Status build_seek(Bytes jpeg, std::vector<uint8_t>& seek) {
  seek.clear();
  HeaderParser parser;
  Headers headers;
  Status status = parser.open(jpeg, headers);
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
