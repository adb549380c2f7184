// Parses the marker segments of a JPEG: frame geometry, tables, where the scans begin.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pixels.h"
#include "status.h"

namespace headrace {

constexpr int kMaxComponents = 3;
constexpr int kMaxBlocksPerMcu = 10;  // T.81, B.2.3; libjpeg-turbo refuses more
constexpr int kBlockSize = 64;

// Zigzag position to row-major position.
extern const uint8_t kNaturalOrder[kBlockSize];

constexpr int32_t divide_up(int32_t a, int32_t b) { return (a + b - 1) / b; }

// A table of a DHT segment: the number of codes per length, then their symbols.
struct HuffmanSpec {
  bool defined = false;
  int symbol_count = 0;
  std::array<uint8_t, 16> counts{};
  std::array<uint8_t, 256> symbols{};

  bool operator==(const HuffmanSpec& other) const {
    return defined == other.defined && counts == other.counts && symbols == other.symbols;
  }
};

// How earlier coefficients select the statistics of arithmetic coding: bounds of small DC
// differences, and the last low AC coefficient (L, U and Kx of T.81, F.1.4.4).
struct Conditioning {
  uint8_t dc_low = 0, dc_high = 1, ac_low = 5;
};

struct Component {
  uint8_t id = 0, h = 1, v = 1, quant_slot = 0;
  bool scanned = false;
  int32_t width = 0, height = 0;            // in samples (libjpeg's downsampled size)
  int32_t block_cols = 0, block_rows = 0;   // that hold samples of the image
  std::array<int16_t, kBlockSize> quant{};  // row-major; wraps to 16 bits as SIMD decoders do
};

struct ScanComponent {
  uint8_t component = 0, dc_slot = 0, ac_slot = 0;
};

struct Scan {
  int count = 0;
  std::array<ScanComponent, kMaxComponents> components{};
  int32_t mcu_cols = 0, mcu_rows = 0;
  // Of a progressive scan: the zigzag indices of its band, and the bits below the one that it
  // gives, before it (0: none was known) and after it (T.81, G.1.1.1).
  uint8_t first = 0, last = 63, low_before = 0, low = 0;
  size_t data = 0;  // where the entropy-coded data begins in the file
};

enum class ColorSpace : uint8_t { grey, ycc, rgb };

struct Headers {
  int32_t width = 0, height = 0;
  int component_count = 0;
  int max_h = 1, max_v = 1;
  int32_t mcu_cols = 0, mcu_rows = 0;  // of an interleaved scan
  int32_t restart_interval = 0;        // in MCUs, 0 for none
  bool progressive = false;
  bool arithmetic = false;     // instead of Huffman codes
  bool ended = false;          // EOI was read instead of a further scan
  bool late_segments = false;  // there are APPn or COM segments behind the first scan
  ColorSpace color = ColorSpace::grey;
  std::array<Component, kMaxComponents> components;
  std::array<HuffmanSpec, 4> dc, ac;
  std::array<Conditioning, 16> conditioning;
  Scan scan;

  // True if `scan` is all there is: then MCU rows are complete, one after the other.
  bool single_scan() const { return scan.count == component_count && !progressive && !arithmetic; }
};

class HeaderParser {
 public:
  // Reads from SOI to the first SOS.
  Status open(Bytes jpeg, Headers& headers);
  // Reads from `position`, where a scan has ended, to the next SOS or to EOI.
  Status next_scan(Bytes jpeg, size_t position, Headers& headers);
  // Where it stands: behind SOS or EOI.
  size_t position() const { return position_; }

 private:
  Status read_segments(Headers& headers);
  Status read_segment(uint8_t marker, Bytes segment, Headers& headers);
  Status read_quant(Bytes segment);
  Status read_frame(Bytes segment, Headers& headers);
  Status read_scan(Bytes segment, Headers& headers);
  Status read_progression(const uint8_t* bytes, const Headers& headers, Scan& scan) const;
  bool tables_defined(const Headers& headers, const Scan& scan) const;
  bool claims_too_much(const Headers& headers, const Scan& scan, int blocks) const;
  void guess_color(Headers& headers) const;

  Bytes jpeg_;
  size_t position_ = 0;
  bool frame_seen_ = false, jfif_seen_ = false, adobe_seen_ = false;
  uint8_t adobe_transform_ = 0;
  std::array<bool, 4> quant_defined_{};
  std::array<std::array<int16_t, kBlockSize>, 4> quant_{};
};

}  // namespace headrace
