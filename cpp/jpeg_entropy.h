// Entropy-coded data in, quantised coefficients out.
#pragma once

#include <cstdint>

#include "jpeg_huffman.h"

namespace headrace {

// The blocks of one MCU, in the order in which they are coded.
struct McuLayout {
  struct Block {
    const DcTable* dc;
    const AcTable* ac;
    const Block* next;  // the first behind the last
    int component;
  };
  int count = 0;
  Block blocks[kMaxBlocksPerMcu];
};

// Consecutive MCUs that can be decoded on their own, because the bit position and the DC
// predictors before the first of them are known.
struct Span {
  uint64_t bit = 0;  // where the first MCU begins; afterwards where they end
  uint64_t end = 0;  // where what there is for them ends
  int32_t predictors[kMaxComponents] = {0, 0, 0};  // before; afterwards those behind the last MCU
  int32_t skip = 0;                                // so many MCUs are decoded, but not kept,
  int32_t keep = 0;                                // then so many are kept:
  int16_t* coefficients = nullptr;  // [keep][blocks of an MCU][64], row-major; zero before
};

// A block read from beyond the end is noticed only when it is complete: 64 symbols of 31 bits.
constexpr int kSpanPadding = 320;

// Decodes all spans, several at a time in one loop, which hides the latency of each. Their bits are
// counted from `data`, which is unstuffed; kSpanPadding readable bytes follow the end of each.
// Status::corrupt on an impossible code, Status::truncated when a span reads beyond its end.
Status decode_spans(const McuLayout& layout, const uint8_t* data, Span* spans, int count);

struct Unstuffed {
  size_t read = 0;     // bytes of the file used: up to a marker, or all
  size_t written = 0;  // bytes of entropy-coded data, without the zeros stuffed behind 0xFF
};

// Copies entropy-coded data up to the next marker or the end of `data`. `out` has room for all, and
// what lies behind the bytes written may be overwritten.
Unstuffed unstuff(Bytes data, uint8_t* out);

}  // namespace headrace
