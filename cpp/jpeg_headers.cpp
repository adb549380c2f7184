#include "jpeg_headers.h"

#include <algorithm>

#include "jpeg_markers.h"

namespace headrace {

const uint8_t kNaturalOrder[kBlockSize] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

namespace {

constexpr int64_t kMaxPixels = 178956970;  // beyond it Pillow warns of a decompression bomb
constexpr int32_t kMaxSide = 65500;        // libjpeg-turbo's JPEG_MAX_DIMENSION

Status read_huffman(Bytes segment, Headers& headers) {
  size_t at = 0;
  while (at < segment.size) {
    if (segment.size - at < 17) return Status::corrupt;
    const uint8_t slot = segment.data[at];
    const uint8_t* counts = segment.data + at + 1;
    int total = 0;
    for (int i = 0; i < 16; ++i) total += counts[i];
    at += 17;
    if ((slot & 0xEC) != 0 || total == 0 || total > 256 || size_t(total) > segment.size - at)
      return Status::corrupt;
    HuffmanSpec& spec = (slot & 0x10 ? headers.ac : headers.dc)[slot & 3];
    spec.defined = true;
    spec.symbol_count = total;
    std::copy_n(counts, 16, spec.counts.begin());
    std::copy_n(segment.data + at, total, spec.symbols.begin());
    at += size_t(total);
  }
  return Status::ok;
}

Status read_conditioning(Bytes segment, Headers& headers) {
  if (segment.size % 2 != 0) return Status::corrupt;
  for (size_t at = 0; at < segment.size; at += 2) {
    const uint8_t slot = segment.data[at], value = segment.data[at + 1];
    if (slot > 31 || (slot < 16 && (value & 15) > value >> 4)) return Status::corrupt;
    Conditioning& conditioning = headers.conditioning[slot & 15];
    if (slot < 16) {
      conditioning.dc_low = value & 15;
      conditioning.dc_high = value >> 4;
    } else {
      conditioning.ac_low = value;
    }
  }
  return Status::ok;
}

// libjpeg-turbo too refuses to upsample by a fraction.
bool divides_evenly(const Headers& headers) {
  for (int c = 0; c < headers.component_count; ++c) {
    const Component& component = headers.components[c];
    if (headers.max_h % component.h != 0 || headers.max_v % component.v != 0) return false;
  }
  return true;
}

void set_geometry(Headers& headers) {
  for (int c = 0; c < headers.component_count; ++c) {
    headers.max_h = std::max<int>(headers.max_h, headers.components[c].h);
    headers.max_v = std::max<int>(headers.max_v, headers.components[c].v);
  }
  headers.mcu_cols = divide_up(headers.width, 8 * headers.max_h);
  headers.mcu_rows = divide_up(headers.height, 8 * headers.max_v);
  for (int c = 0; c < headers.component_count; ++c) {
    Component& component = headers.components[c];
    component.width = divide_up(headers.width * component.h, headers.max_h);
    component.height = divide_up(headers.height * component.v, headers.max_v);
    component.block_cols = divide_up(component.width, 8);
    component.block_rows = divide_up(component.height, 8);
  }
}

}  // namespace

Status HeaderParser::open(Bytes jpeg, Headers& headers) {
  *this = HeaderParser();
  headers = Headers();
  jpeg_ = jpeg;
  if (jpeg.size < 2 || jpeg.data[0] != 0xFF || jpeg.data[1] != SOI) return Status::unsupported;
  position_ = 2;
  return read_segments(headers);
}

Status HeaderParser::next_scan(Bytes jpeg, size_t position, Headers& headers) {
  jpeg_ = jpeg;
  position_ = position;
  return read_segments(headers);
}

Status HeaderParser::read_segments(Headers& headers) {
  for (;;) {
    if (jpeg_.size - position_ < 2) return Status::truncated;
    if (jpeg_.data[position_] != 0xFF) return Status::corrupt;
    const uint8_t marker = jpeg_.data[position_ + 1];
    position_ += marker == 0xFF ? 1 : 2;
    if (marker == 0xFF) continue;  // a fill byte
    if (marker == EOI && headers.scan.count > 0) {
      headers.ended = true;
      return Status::ok;
    }
    if (marker < SOF0 || (marker >= 0xD0 && marker <= EOI)) return Status::corrupt;
    if (jpeg_.size - position_ < 2) return Status::truncated;
    const size_t length = size_t(read_u16(jpeg_.data + position_));
    if (length < 2) return Status::corrupt;
    if (length > jpeg_.size - position_) return Status::truncated;
    const Bytes segment{jpeg_.data + position_ + 2, length - 2};
    position_ += length;
    const Status status = read_segment(marker, segment, headers);
    if (status != Status::ok || marker == SOS) return status;
  }
}

Status HeaderParser::read_segment(uint8_t marker, Bytes segment, Headers& headers) {
  if (is_application(marker)) headers.late_segments |= headers.scan.count > 0;
  switch (marker) {
    case DHT:
      return read_huffman(segment, headers);
    case DAC:
      return read_conditioning(segment, headers);
    case DQT:
      return read_quant(segment);
    case SOF0:
    case SOF1:
    case SOF2:
    case SOF9:
    case SOF10:
      headers.progressive = marker == SOF2 || marker == SOF10;
      headers.arithmetic = marker == SOF9 || marker == SOF10;
      return read_frame(segment, headers);
    case SOS:
      return read_scan(segment, headers);
    case DRI:
      if (segment.size != 2) return Status::corrupt;
      headers.restart_interval = read_u16(segment.data);
      return Status::ok;
    case APP0:  // here and below: Pillow has its own rules for segments that are too short
      if (begins_with(segment, "JFIF") && segment.size < 7) return Status::unsupported;
      if (begins_with(segment, "JFIF") && segment.data[4] == 0) {
        if (segment.size < 14) return Status::corrupt;
        jfif_seen_ = true;
      }
      return Status::ok;
    case APP2:
      if (begins_with(segment, "ICC_PROFILE") && segment.size < 14) return Status::unsupported;
      return Status::ok;
    case APP14:
      if (begins_with(segment, "Adobe")) {
        if (segment.size < 12) return Status::corrupt;
        adobe_seen_ = true;
        adobe_transform_ = segment.data[11];
      }
      return Status::ok;
  }
  if (is_application(marker)) return Status::ok;
  return Status::unsupported;  // other frame types, DNL, hierarchical
}

Status HeaderParser::read_quant(Bytes segment) {
  size_t at = 0;
  while (at < segment.size) {
    const uint8_t slot = segment.data[at++];
    const size_t width = slot >> 4 ? 2 : 1;
    if (slot >> 4 > 1 || (slot & 15) > 3 || segment.size - at < width * kBlockSize)
      return Status::corrupt;
    for (int k = 0; k < kBlockSize; ++k, at += width) {
      const int value = width == 2 ? read_u16(segment.data + at) : segment.data[at];
      quant_[slot & 15][kNaturalOrder[k]] = int16_t(value);
    }
    quant_defined_[slot & 15] = true;
  }
  return Status::ok;
}

Status HeaderParser::read_frame(Bytes segment, Headers& headers) {
  if (frame_seen_ || segment.size < 6) return Status::corrupt;
  frame_seen_ = true;
  headers.height = read_u16(segment.data + 1);
  headers.width = read_u16(segment.data + 3);
  headers.component_count = segment.data[5];
  if (segment.size != 6 + 3 * size_t(headers.component_count)) return Status::corrupt;
  if (segment.data[0] != 8 || headers.width == 0 || headers.height == 0) return Status::unsupported;
  if (headers.component_count != 1 && headers.component_count != 3) return Status::unsupported;
  if (int64_t(headers.width) * headers.height > kMaxPixels || headers.width > kMaxSide ||
      headers.height > kMaxSide)
    return Status::too_large;
  for (int c = 0; c < headers.component_count; ++c) {
    const uint8_t* entry = segment.data + 6 + 3 * c;
    Component& component = headers.components[c];
    component.id = entry[0];
    component.h = entry[1] >> 4;
    component.v = entry[1] & 15;
    component.quant_slot = entry[2];
    if (component.h < 1 || component.h > 4 || component.v < 1 || component.v > 4)
      return Status::corrupt;
    for (int other = 0; other < c; ++other)
      if (headers.components[other].id == component.id) return Status::corrupt;
  }
  // A single component is never interleaved: its blocks are in raster order, whatever its factors.
  if (headers.component_count == 1) headers.components[0].h = headers.components[0].v = 1;
  set_geometry(headers);
  return divides_evenly(headers) ? Status::ok : Status::unsupported;
}

Status HeaderParser::read_scan(Bytes segment, Headers& headers) {
  if (!frame_seen_ || segment.size < 1) return Status::corrupt;
  Scan scan;
  scan.count = segment.data[0];
  if (scan.count < 1 || scan.count > headers.component_count ||
      segment.size != 4 + 2 * size_t(scan.count))
    return Status::corrupt;
  int blocks = 0, last = -1;
  for (int i = 0; i < scan.count; ++i) {
    const uint8_t* entry = segment.data + 1 + 2 * i;
    int c = 0;
    while (c < headers.component_count && headers.components[c].id != entry[0]) ++c;
    if (c == headers.component_count || c <= last) return Status::corrupt;  // the frame's order
    last = c;
    Component& component = headers.components[c];
    if (component.scanned && !headers.progressive) return Status::corrupt;
    if (!component.scanned) {  // the table of its first scan counts for all of them
      if (component.quant_slot > 3 || !quant_defined_[component.quant_slot]) return Status::corrupt;
      component.quant = quant_[component.quant_slot];
    }
    component.scanned = true;
    blocks += component.h * component.v;
    scan.components[i] = {uint8_t(c), uint8_t(entry[1] >> 4), uint8_t(entry[1] & 15)};
  }
  scan.mcu_cols = headers.mcu_cols;
  scan.mcu_rows = headers.mcu_rows;
  if (scan.count == 1) {  // then an MCU is one block, and there is no padding
    const Component& only = headers.components[scan.components[0].component];
    blocks = 1;
    scan.mcu_cols = only.block_cols;
    scan.mcu_rows = only.block_rows;
  }
  const Status status = read_progression(segment.data + 1 + 2 * scan.count, headers, scan);
  if (status != Status::ok) return status;
  if (!tables_defined(headers, scan)) return Status::unsupported;
  if (claims_too_much(headers, scan, blocks)) return Status::truncated;
  if (blocks > kMaxBlocksPerMcu) return Status::corrupt;
  scan.data = position_;
  if (headers.scan.count == 0) guess_color(headers);
  headers.scan = scan;
  return Status::ok;
}

// Reads the last three bytes of a scan header (T.81, B.2.3 and G.1.1.1).
Status HeaderParser::read_progression(const uint8_t* bytes, const Headers& headers,
                                      Scan& scan) const {
  if (!headers.progressive)
    return bytes[0] == 0 && bytes[1] == 63 && bytes[2] == 0 ? Status::ok : Status::corrupt;
  scan.first = bytes[0];
  scan.last = bytes[1];
  scan.low_before = bytes[2] >> 4;
  scan.low = bytes[2] & 15;
  const bool band_is_valid = scan.first == 0
                                 ? scan.last == 0
                                 : scan.count == 1 && scan.first <= scan.last && scan.last <= 63;
  const bool bits_are_valid =
      scan.low <= 13 && (scan.low_before == 0 || scan.low_before == scan.low + 1);
  return band_is_valid && bits_are_valid ? Status::ok : Status::corrupt;
}

// Motion-JPEG frames omit the tables and mean the standard ones, which Pillow knows.
bool HeaderParser::tables_defined(const Headers& headers, const Scan& scan) const {
  if (headers.arithmetic) return true;
  const bool dc = !headers.progressive || (scan.first == 0 && scan.low_before == 0);
  const bool ac = !headers.progressive || scan.first > 0;
  for (int i = 0; i < scan.count; ++i) {
    const ScanComponent& entry = scan.components[i];
    if (dc && (entry.dc_slot > 3 || !headers.dc[entry.dc_slot].defined)) return false;
    if (ac && (entry.ac_slot > 3 || !headers.ac[entry.ac_slot].defined)) return false;
  }
  return true;
}

// Returns true if a scan has more blocks than the rest of the file has bits for. A block has at
// least two: one for its DC code, one for its end. In a progressive file each block of each
// component has at least one DC code, but none of AC scans needs a bit. Arithmetic coding knows no
// least.
bool HeaderParser::claims_too_much(const Headers& headers, const Scan& scan, int blocks) const {
  if (headers.arithmetic) return false;
  const auto bytes = int64_t(jpeg_.size - position_);
  if (!headers.progressive) return int64_t(scan.mcu_cols) * scan.mcu_rows * blocks > bytes * 4;
  if (headers.scan.count > 0) return false;  // checked at the first scan
  int64_t total = 0;
  for (int c = 0; c < headers.component_count; ++c)
    total += int64_t(headers.components[c].block_cols) * headers.components[c].block_rows;
  return total > bytes * 8;
}

// Follows libjpeg-turbo's default_decompress_parms.
void HeaderParser::guess_color(Headers& headers) const {
  const auto& components = headers.components;
  if (headers.component_count == 1)
    headers.color = ColorSpace::grey;
  else if (jfif_seen_)
    headers.color = ColorSpace::ycc;
  else if (adobe_seen_)
    headers.color = adobe_transform_ == 0 ? ColorSpace::rgb : ColorSpace::ycc;
  else if (components[0].id == 'R' && components[1].id == 'G' && components[2].id == 'B')
    headers.color = ColorSpace::rgb;
  else
    headers.color = ColorSpace::ycc;
}

}  // namespace headrace
