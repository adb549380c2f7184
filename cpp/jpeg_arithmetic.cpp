#include "jpeg_arithmetic.h"

#include <algorithm>

namespace headrace {
namespace {

// The probability of the less probable symbol, the next state after either symbol, and whether the
// less probable one becomes the other (T.81, table D.3). The last state stays at one half.
struct State {
  uint16_t probability;
  uint8_t after_less, after_more, exchange;
};
constexpr uint8_t kHalf = 113;
constexpr State kStates[114] = {
    {0x5a1d, 1, 1, 1},     {0x2586, 14, 2, 0},    {0x1114, 16, 3, 0},    {0x080b, 18, 4, 0},
    {0x03d8, 20, 5, 0},    {0x01da, 23, 6, 0},    {0x00e5, 25, 7, 0},    {0x006f, 28, 8, 0},
    {0x0036, 30, 9, 0},    {0x001a, 33, 10, 0},   {0x000d, 35, 11, 0},   {0x0006, 9, 12, 0},
    {0x0003, 10, 13, 0},   {0x0001, 12, 13, 0},   {0x5a7f, 15, 15, 1},   {0x3f25, 36, 16, 0},
    {0x2cf2, 38, 17, 0},   {0x207c, 39, 18, 0},   {0x17b9, 40, 19, 0},   {0x1182, 42, 20, 0},
    {0x0cef, 43, 21, 0},   {0x09a1, 45, 22, 0},   {0x072f, 46, 23, 0},   {0x055c, 48, 24, 0},
    {0x0406, 49, 25, 0},   {0x0303, 51, 26, 0},   {0x0240, 52, 27, 0},   {0x01b1, 54, 28, 0},
    {0x0144, 56, 29, 0},   {0x00f5, 57, 30, 0},   {0x00b7, 59, 31, 0},   {0x008a, 60, 32, 0},
    {0x0068, 62, 33, 0},   {0x004e, 63, 34, 0},   {0x003b, 32, 35, 0},   {0x002c, 33, 9, 0},
    {0x5ae1, 37, 37, 1},   {0x484c, 64, 38, 0},   {0x3a0d, 65, 39, 0},   {0x2ef1, 67, 40, 0},
    {0x261f, 68, 41, 0},   {0x1f33, 69, 42, 0},   {0x19a8, 70, 43, 0},   {0x1518, 72, 44, 0},
    {0x1177, 73, 45, 0},   {0x0e74, 74, 46, 0},   {0x0bfb, 75, 47, 0},   {0x09f8, 77, 48, 0},
    {0x0861, 78, 49, 0},   {0x0706, 79, 50, 0},   {0x05cd, 48, 51, 0},   {0x04de, 50, 52, 0},
    {0x040f, 50, 53, 0},   {0x0363, 51, 54, 0},   {0x02d4, 52, 55, 0},   {0x025c, 53, 56, 0},
    {0x01f8, 54, 57, 0},   {0x01a4, 55, 58, 0},   {0x0160, 56, 59, 0},   {0x0125, 57, 60, 0},
    {0x00f6, 58, 61, 0},   {0x00cb, 59, 62, 0},   {0x00ab, 61, 63, 0},   {0x008f, 61, 32, 0},
    {0x5b12, 65, 65, 1},   {0x4d04, 80, 66, 0},   {0x412c, 81, 67, 0},   {0x37d8, 82, 68, 0},
    {0x2fe8, 83, 69, 0},   {0x293c, 84, 70, 0},   {0x2379, 86, 71, 0},   {0x1edf, 87, 72, 0},
    {0x1aa9, 87, 73, 0},   {0x174e, 72, 74, 0},   {0x1424, 72, 75, 0},   {0x119c, 74, 76, 0},
    {0x0f6b, 74, 77, 0},   {0x0d51, 75, 78, 0},   {0x0bb6, 77, 79, 0},   {0x0a40, 77, 48, 0},
    {0x5832, 80, 81, 1},   {0x4d1c, 88, 82, 0},   {0x438e, 89, 83, 0},   {0x3bdd, 90, 84, 0},
    {0x34ee, 91, 85, 0},   {0x2eae, 92, 86, 0},   {0x299a, 93, 87, 0},   {0x2516, 86, 71, 0},
    {0x5570, 88, 89, 1},   {0x4ca9, 95, 90, 0},   {0x44d9, 96, 91, 0},   {0x3e22, 97, 92, 0},
    {0x3824, 99, 93, 0},   {0x32b4, 99, 94, 0},   {0x2e17, 93, 86, 0},   {0x56a8, 95, 96, 1},
    {0x4f46, 101, 97, 0},  {0x47e5, 102, 98, 0},  {0x41cf, 103, 99, 0},  {0x3c3d, 104, 100, 0},
    {0x375e, 99, 93, 0},   {0x5231, 105, 102, 0}, {0x4c0f, 106, 103, 0}, {0x4639, 107, 104, 0},
    {0x415e, 103, 99, 0},  {0x5627, 105, 106, 1}, {0x50e7, 108, 107, 0}, {0x4b85, 109, 103, 0},
    {0x5597, 110, 109, 0}, {0x504f, 111, 107, 0}, {0x5a10, 110, 111, 1}, {0x5522, 112, 109, 0},
    {0x59eb, 112, 111, 1}, {0x5a1d, 113, 113, 0},
};

// Where the statistics of a decision lie among those of a table (T.81, tables F.4 and F.5).
constexpr int kDcMagnitude = 20, kAcLowMagnitude = 189, kAcHighMagnitude = 217;
constexpr int kMagnitudeBits = 14;  // behind those of the magnitude
constexpr int kMaxMagnitude = 0x8000;

}  // namespace

void BinaryDecoder::begin(const uint8_t* data, const uint8_t* end) {
  next_ = data;
  end_ = end;
  interval_ = 0x10000;
  code_ = 0;
  bits_ = -16;
  refill();
}

// Behind the end of the data there are zeros (T.81, D.2.6).
void BinaryDecoder::refill() {
  while (bits_ < 0) {
    code_ = code_ << 8 | (next_ < end_ ? *next_++ : 0);
    bits_ += 8;
  }
}

// Decodes one decision (T.81, D.2.4 and D.2.5).
bool BinaryDecoder::decode(uint8_t& statistic) {
  const State& state = kStates[statistic & 127];
  const bool more_probable = statistic >> 7;
  interval_ -= state.probability;
  const uint64_t split = uint64_t(interval_) << bits_;
  bool less;
  if (code_ < split) {
    if (interval_ >= 0x8000) return more_probable;
    less = interval_ < state.probability;
  } else {
    code_ -= split;
    less = interval_ >= state.probability;
    interval_ = state.probability;
  }
  const bool flipped = less && state.exchange;
  statistic =
      uint8_t((more_probable != flipped) << 7 | (less ? state.after_less : state.after_more));
  const int shift = __builtin_clz(interval_) - 16;
  interval_ <<= shift;
  bits_ -= shift;
  refill();
  return more_probable != less;
}

bool BinaryDecoder::decode_half() {
  uint8_t half = kHalf;
  return decode(half);
}

// Decodes how often a magnitude doubles (T.81, figure F.23) from the statistics on, then its bits
// (figure F.24). Returns the magnitude less one, or -1 if it is too great.
int32_t ArithmeticDecoder::decode_magnitude(uint8_t* statistic, int32_t magnitude) {
  while (coder_.decode(*statistic)) {
    magnitude <<= 1;
    if (magnitude == kMaxMagnitude) return -1;
    ++statistic;
  }
  int32_t value = magnitude;
  for (int32_t bit = magnitude >> 1; bit != 0; bit >>= 1)
    if (coder_.decode(statistic[kMagnitudeBits])) value |= bit;
  return value;
}

// Decodes the difference of a DC coefficient from the one before (T.81, F.2.4.1).
bool ArithmeticDecoder::decode_dc(int i, const ScanComponent& entry) {
  uint8_t* statistics = dc_statistics_[entry.dc_slot].data();
  uint8_t* first = statistics + contexts_[i];
  if (!coder_.decode(*first)) {
    contexts_[i] = 0;
    return true;
  }
  const bool negative = coder_.decode(first[1]);
  uint8_t* statistic = first + 2 + negative;
  int32_t value = 0, magnitude = 0;
  if (coder_.decode(*statistic)) {
    value = decode_magnitude(statistics + kDcMagnitude, 1);
    if (value < 0) return false;
    magnitude = int32_t(1) << (31 - __builtin_clz(uint32_t(value)));
  }
  const Conditioning& conditioning = conditioning_[entry.dc_slot];
  const int sign = negative ? 4 : 0;
  if (magnitude < (1 << conditioning.dc_low) >> 1)
    contexts_[i] = 0;
  else
    contexts_[i] = magnitude > (1 << conditioning.dc_high) >> 1 ? 12 + sign : 4 + sign;
  predictors_[i] += uint32_t(negative ? -(value + 1) : value + 1);
  return true;
}

// Decodes the AC coefficients of a band (T.81, F.2.4.2).
bool ArithmeticDecoder::decode_ac(const Scan& scan, uint8_t slot, int16_t* block) {
  uint8_t* statistics = ac_statistics_[slot].data();
  for (int k = std::max<int>(scan.first, 1); k <= scan.last; ++k) {
    uint8_t* statistic = statistics + 3 * (k - 1);
    if (coder_.decode(*statistic)) break;  // the band has ended
    for (; !coder_.decode(statistic[1]); statistic += 3)
      if (++k > scan.last) return false;
    const bool negative = coder_.decode_half();
    statistic += 2;
    int32_t value = 0;
    if (coder_.decode(*statistic)) {
      value = 1;
      if (coder_.decode(*statistic)) {
        const bool low = k <= conditioning_[slot].ac_low;
        value = decode_magnitude(statistics + (low ? kAcLowMagnitude : kAcHighMagnitude), 2);
        if (value < 0) return false;
      }
    }
    const int32_t coefficient = negative ? -(value + 1) : value + 1;
    block[kNaturalOrder[k]] = int16_t(uint32_t(coefficient) << scan.low);
  }
  return true;
}

// Decodes the next bit of the AC coefficients of a band (T.81, G.1.3.3).
bool ArithmeticDecoder::refine_ac(const Scan& scan, uint8_t slot, int16_t* block) {
  const auto one = int16_t(1 << scan.low);
  int end = scan.last;  // of the band before
  while (end > 0 && block[kNaturalOrder[end]] == 0) --end;
  for (int k = scan.first; k <= scan.last; ++k) {
    uint8_t* statistic = ac_statistics_[slot].data() + 3 * (k - 1);
    if (k > end && coder_.decode(*statistic)) break;
    for (;; statistic += 3) {
      int16_t& coefficient = block[kNaturalOrder[k]];
      if (coefficient != 0) {
        if (coder_.decode(statistic[2])) coefficient += coefficient < 0 ? int16_t(-one) : one;
        break;
      }
      if (coder_.decode(statistic[1])) {
        coefficient = coder_.decode_half() ? int16_t(-one) : one;
        break;
      }
      if (++k > scan.last) return false;
    }
  }
  return true;
}

bool ArithmeticDecoder::decode_block(const Headers& headers, int i, int16_t* block) {
  const Scan& scan = headers.scan;
  const ScanComponent& entry = scan.components[i];
  if (scan.first == 0 && scan.low_before > 0) {
    if (coder_.decode_half()) block[0] = int16_t(block[0] | 1 << scan.low);
    return true;
  }
  if (scan.first == 0) {
    if (!decode_dc(i, entry)) return false;
    block[0] = int16_t(predictors_[i] << scan.low);
    if (headers.progressive) return true;
  }
  return scan.low_before > 0 ? refine_ac(scan, entry.ac_slot, block)
                             : decode_ac(scan, entry.ac_slot, block);
}

void ArithmeticDecoder::begin_interval(const ScanStream::Segment& segment) {
  coder_.begin(stream_.data() + segment.begin, stream_.data() + segment.end);
  for (auto& statistics : dc_statistics_) statistics.fill(0);
  for (auto& statistics : ac_statistics_) statistics.fill(0);
  predictors_.fill(0);
  contexts_.fill(0);
}

Status ArithmeticDecoder::decode_scan(Bytes jpeg, const Headers& headers,
                                      const BlockPlanes& planes) {
  const Scan& scan = headers.scan;
  const int64_t mcus = int64_t(scan.mcu_cols) * scan.mcu_rows;
  const int64_t interval = headers.restart_interval > 0 ? headers.restart_interval : mcus;
  conditioning_ = headers.conditioning;
  stream_.read(jpeg, scan.data, (mcus + interval - 1) / interval);
  size_t segment = 0;
  for (int64_t first = 0; first < mcus; first += interval, ++segment) {
    if (segment == stream_.segments().size()) return stream_.lack_of_data();
    begin_interval(stream_.segments()[segment]);
    const auto decode = [&](int i, int32_t row, int32_t column) {
      return decode_block(headers, i, planes[scan.components[i].component].block(row, column));
    };
    if (!visit_blocks(headers, first, std::min(interval, mcus - first), decode))
      return Status::corrupt;
  }
  return Status::ok;
}

Status ArithmeticDecoder::decode(Bytes jpeg, HeaderParser& parser, Headers& headers,
                                 const BlockPlanes& planes) {
  Progression progression;
  progression.begin();
  Status status = Status::ok;
  while (status == Status::ok && !headers.ended) {
    if (headers.progressive) status = progression.add(headers.scan);
    if (status == Status::ok) status = decode_scan(jpeg, headers, planes);
    if (status == Status::ok) status = parser.next_scan(jpeg, stream_.end(), headers);
  }
  stream_.trim();
  if (status == Status::ok && headers.progressive &&
      !progression.is_complete(headers.component_count))
    return Status::unsupported;
  return status;
}

}  // namespace headrace
