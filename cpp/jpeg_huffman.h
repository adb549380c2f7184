// Huffman tables of one scan, laid out for decoding whole symbols by one look.
#pragma once

#include <cstdint>

#include "jpeg_headers.h"

namespace headrace {

// Tables are small on purpose: they share the nearest cache with coefficients and samples.
constexpr int kDcLookBits = 9;
constexpr int kLookBits = 11;

struct HuffmanCodes {
  // Codes of `length` bits, left-aligned to 16, lie below limit[length]; symbol_offset turns such
  // a code into an index of `symbols`.
  uint32_t limit[17];
  int32_t symbol_offset[17];
  uint8_t symbols[256];
};

struct DcEntry {
  uint8_t length;  // of the code; 0 if it is longer than kDcLookBits
  uint8_t size;    // how many bits of difference follow
};

struct DcTable {
  alignas(64) DcEntry look[1 << kDcLookBits];
  HuffmanCodes codes;
};

// Up to two whole symbols and an end of block behind them, as far as they fit into kLookBits. A
// symbol takes the bits of its code and of its value, and advances the zigzag index. With an end of
// block it advances beyond the last, so that one comparison finds either. A lone symbol is followed
// by a zero in the same place: values are stored from the last to the first.
struct AcEntry {
  uint8_t advance;  // of all: kEndOfBlock more with an end of block, kLongSymbol for a long symbol
  uint8_t first_advance;      // of the first symbol; of a long one the length of its code, if known
  int8_t first_value, value;  // of the first and of the last symbol; of a long one the symbol
};

// All that a look needs lies near one address, which saves the decoder registers.
struct AcTable {
  alignas(64) AcEntry look[1 << kLookBits];
  uint8_t length[1 << kLookBits];        // bits of all that is in an entry
  uint8_t first_length[1 << kLookBits];  // of the first symbol alone
  uint8_t natural_order[kBlockSize];     // a copy of kNaturalOrder
  HuffmanCodes codes;
};

constexpr int kEndOfBlock = 128;
constexpr int kLongSymbol = 192;  // needs a second look: too many bits, or too great a value

Status build_dc_table(const HuffmanSpec& spec, DcTable& table);
Status build_ac_table(const HuffmanSpec& spec, AcTable& table);

}  // namespace headrace
