// JPEG with arithmetic coding (T.81, annex D, F.1.4 and G.1.3): all scans in, all coefficients out.
#pragma once

#include <array>
#include <cstdint>

#include "jpeg_blocks.h"
#include "jpeg_headers.h"
#include "jpeg_progression.h"
#include "jpeg_stream.h"

namespace headrace {

// Decodes binary decisions. A statistic is a byte: which symbol is the more probable one in its
// highest bit, and the state of its estimate.
class BinaryDecoder {
 public:
  void begin(const uint8_t* data, const uint8_t* end);  // unstuffed
  bool decode(uint8_t& statistic);
  bool decode_half();  // a decision without statistics

 private:
  void refill();

  const uint8_t *next_ = nullptr, *end_ = nullptr;
  uint64_t code_ = 0;      // from the base of the interval, with `bits_` bits that are not used yet
  uint32_t interval_ = 0;  // its size, at least 0x8000 before each decision
  int bits_ = 0;
};

class ArithmeticDecoder {
 public:
  // `parser` and `headers` stand at the first scan; they move to the last. The blocks of `planes`
  // must be zero. Incomplete progressive files are unsupported (see Progression).
  Status decode(Bytes jpeg, HeaderParser& parser, Headers& headers, const BlockPlanes& planes);

 private:
  Status decode_scan(Bytes jpeg, const Headers& headers, const BlockPlanes& planes);
  void begin_interval(const ScanStream::Segment& segment);
  // These return false if the data are corrupt.
  bool decode_block(const Headers& headers, int i, int16_t* block);
  bool decode_dc(int i, const ScanComponent& entry);
  bool decode_ac(const Scan& scan, uint8_t slot, int16_t* block);
  bool refine_ac(const Scan& scan, uint8_t slot, int16_t* block);
  int32_t decode_magnitude(uint8_t* statistic, int32_t magnitude);

  ScanStream stream_;
  BinaryDecoder coder_;
  std::array<Conditioning, 16> conditioning_;
  // Of each table, and of each component of the scan.
  std::array<std::array<uint8_t, 64>, 16> dc_statistics_;
  std::array<std::array<uint8_t, 256>, 16> ac_statistics_;
  std::array<uint32_t, kMaxComponents> predictors_{};  // may wrap
  std::array<int, kMaxComponents> contexts_{};
};

}  // namespace headrace
