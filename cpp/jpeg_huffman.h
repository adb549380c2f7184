// Huffman tables of one scan, laid out for decoding a whole symbol by one look.
#pragma once

#include <cstdint>

#include "jpeg_headers.h"

namespace penstock {

constexpr int kLookBits = 11;

// AC entries: bits 0-7 how many bits code and value take together, 8-15 by how much the zigzag
// index advances, 16-31 the value. Index and advance are chosen so that one comparison tells the
// common case from all others: see kEndOfBlock and kLongSymbol.
// DC entries: bits 0-7 the length of the code, 8-15 how many bits of difference follow.
// A length of 0 means that the code, or the code and its value, are longer than kLookBits.
struct HuffmanTable {
  alignas(64) uint32_t look[1 << kLookBits];
  // Codes of `length` bits, left-aligned to 16, lie below limit[length]; symbol_offset turns such
  // a code into an index of `symbols`.
  uint32_t limit[17];
  int32_t symbol_offset[17];
  uint8_t symbols[256];
};

constexpr int kEndOfBlock = 128;  // advance of an end of block
constexpr int kLongSymbol = 192;  // advance of an entry that needs a second look

Status build_dc_table(const HuffmanSpec& spec, HuffmanTable& table);
Status build_ac_table(const HuffmanSpec& spec, HuffmanTable& table);

}  // namespace penstock
