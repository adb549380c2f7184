// The scans of a progressive JPEG, as kernels/bands.h decodes them: parts of a scan in, quantised
// coefficients out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "jpeg_huffman.h"

namespace headrace {

// Where a scan is read. Reading beyond the end is noticed when a block is complete, less than
// kSpanPadding bytes later.
struct BitSpan {
  const uint8_t* data = nullptr;  // unstuffed
  uint64_t bit = 0, end = 0;      // the next bit, and the end of the data or of a restart interval
};

// A first scan of DC coefficients: the blocks of an MCU, and the predictors.
struct DcScan {
  BitSpan span;
  int blocks = 0;
  const DcTable* tables[kMaxBlocksPerMcu] = {};
  int component[kMaxBlocksPerMcu] = {};
  int32_t predictors[kMaxComponents] = {0, 0, 0};
};

// A scan of a band of AC coefficients.
struct BandScan {
  BitSpan span;
  BandTable table;
  int first = 1, last = 63;  // zigzag indices
  int low = 0;               // bits below the one that the scan gives
  uint32_t end_run = 0;      // blocks that are still to come whose band has ended
};

// Consecutive blocks of a component.
struct BandBlocks {
  int32_t count = 0;
  int16_t* coefficients = nullptr;  // [count][64], row-major; null: not wanted
  uint64_t* nonzero = nullptr;  // [count]: bit k says that the coefficient with zigzag index k is
                                // not zero
};

}  // namespace headrace
