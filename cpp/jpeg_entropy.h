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
    const Block* next;  // behind the last block, the first
    int component;
  };
  int count = 0;
  Block blocks[kMaxBlocksPerMcu];
};

// Consecutive MCUs that can be decoded on their own, because the bit position and the DC predictors
// before the first MCU are known.
struct Span {
  uint64_t bit = 0;  // of the first MCU; after decoding, the bit behind the last MCU
  uint64_t end = 0;  // of the data
  int32_t predictors[kMaxComponents] = {0, 0, 0};  // before the first MCU; after, behind the last
  int32_t skip = 0;                                // MCUs that are decoded and discarded
  int32_t keep = 0;                                // MCUs that are kept, behind those
  int16_t* coefficients = nullptr;  // [keep][blocks of an MCU][64], row-major; must be zero before
};

// Reading beyond the end is noticed when a block is complete: 64 symbols of at most 31 bits.
constexpr int kSpanPadding = 320;

struct Unstuffed {
  size_t read = 0;     // bytes of the file: up to a marker or the end
  size_t written = 0;  // bytes without the zeros stuffed behind 0xFF
};

}  // namespace headrace
