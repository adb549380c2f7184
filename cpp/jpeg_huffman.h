// Huffman tables of one scan, laid out for the lookups of kernels/entropy.h and bands.h.
#pragma once

#include <cstdint>

#include "jpeg_headers.h"

namespace headrace {

// intentional: small, since the tables share the L1 cache with coefficients and samples.
constexpr int kDcLookupBits = 9;
constexpr int kLookupBits = 11;

struct HuffmanCodes {
  // Codes of `length` bits, left-aligned to 16, are less than limit[length]; such a code plus its
  // symbol_offset is an index of `symbols` (MAXCODE, MINCODE and VALPTR of T.81, F.2.2.3).
  uint32_t limit[17];
  int32_t symbol_offset[17];
  uint8_t symbols[256];
};

struct DcEntry {
  uint8_t length;  // bits of the code; 0 if it is longer than kDcLookupBits
  uint8_t size;    // bits of the difference that follow it
};

struct DcTable {
  alignas(64) DcEntry lookup[1 << kDcLookupBits];
  HuffmanCodes codes;
};

constexpr int kEndOfBlock = 128;
constexpr int kLongSymbol = 192;

// Up to two whole symbols, each a code with its value, and an end of block behind them, as far as
// they fit into kLookupBits. `advance` is how far they move the zigzag index. An end of block adds
// kEndOfBlock, which moves it beyond 63: one comparison finds either end. A lone symbol is followed
// by a zero with the same index, so the second value is stored before the first.
// A symbol with too many bits or too great a value has kLongSymbol, the length of its code (0 if
// that is not known) as `first_advance`, and itself as `value`.
struct AcEntry {
  uint8_t advance, first_advance;
  int8_t first_value, value;
};

// Everything that a lookup needs lies near one address, which saves the decoder registers.
struct AcTable {
  alignas(64) AcEntry lookup[1 << kLookupBits];
  uint8_t length[1 << kLookupBits];        // bits of an entry
  uint8_t first_length[1 << kLookupBits];  // bits of its first symbol
  uint8_t natural_order[kBlockSize];       // a copy of kNaturalOrder
  HuffmanCodes codes;
};

constexpr int kBandLookupBits = 10;

// What a BandEntry without a coefficient is; greater than every advance.
constexpr int kEndOfBand = 64;  // the band ends in `value` blocks, this one included
constexpr int kSixteenZeros = 65;
constexpr int kLongBandSymbol = 66;  // code or value have too many bits

// A symbol of a progressive AC scan with the bits behind it: the length of both, how far it moves
// the zigzag index, and a value. One word, whose lowest bits are the count of a shift.
struct BandEntry {
  uint8_t length, advance;
  int16_t value;
};

struct BandTable {
  alignas(64) BandEntry lookup[1 << kBandLookupBits];
  uint8_t natural_order[kBlockSize];  // a copy of kNaturalOrder
  HuffmanCodes codes;
};

Status build_dc_table(const HuffmanSpec& spec, DcTable& table);
Status build_ac_table(const HuffmanSpec& spec, AcTable& table);
// Values are shifted by `low`. In a refining scan they are 1 or -1 before that.
Status build_band_table(const HuffmanSpec& spec, int low, bool refining, BandTable& table);

}  // namespace headrace
