// Huffman tables of one scan, laid out for decoding whole symbols by one look.
#pragma once

#include <cstdint>

#include "jpeg_headers.h"

namespace penstock {

constexpr int kLookBits = 11;

struct HuffmanTable {
  // Codes of `length` bits, left-aligned to 16, lie below limit[length]; symbol_offset turns such
  // a code into an index of `symbols`.
  uint32_t limit[17];
  int32_t symbol_offset[17];
  uint8_t symbols[256];
};

// Entries: bits 0-7 the length of the code, 8-15 how many bits of difference follow. A length of 0
// means that the code is longer than kLookBits.
struct DcTable : HuffmanTable {
  alignas(64) uint16_t look[1 << kLookBits];
};

// Up to two whole symbols, as far as they fit into kLookBits; an end of block is always alone. A
// symbol takes the bits of its code and of its value, and advances the zigzag index. Advances are
// chosen so that one comparison tells the common case from all others: see kEndOfBlock and
// kLongSymbol. A lone symbol stands twice.
struct AcEntry {
  uint8_t length;        // bits of both
  uint8_t advance;       // of both
  uint8_t first_length;  // of the first alone
  uint8_t first_advance;
  int16_t first_value, value;  // the value of the last symbol; for long ones code length and symbol
};
// The decoder reads an entry as one word and takes it apart by shifts.
static_assert(sizeof(AcEntry) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

struct AcTable : HuffmanTable {
  alignas(64) AcEntry look[1 << kLookBits];
};

constexpr int kEndOfBlock = 128;  // advance of an end of block
constexpr int kLongSymbol = 192;  // advance of an entry that needs a second look

Status build_dc_table(const HuffmanSpec& spec, DcTable& table);
Status build_ac_table(const HuffmanSpec& spec, AcTable& table);

}  // namespace penstock
