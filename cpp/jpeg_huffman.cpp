#include "jpeg_huffman.h"

#include <algorithm>

namespace penstock {
namespace {

constexpr uint32_t kUnknown = uint32_t(kLongSymbol) << 8;

uint32_t ac_entry(int length, int advance, int value) {
  return uint32_t(length) | uint32_t(advance) << 8 | uint32_t(value) << 16;
}

// All entries that begin with one code: one for each value that fits behind it.
void fill_ac(uint32_t* at, int length, uint8_t symbol) {
  const int size = symbol & 15, run = symbol >> 4;
  const int free_bits = kLookBits - length;
  if (size == 0) {
    const int advance = run == 15 ? 16 : kEndOfBlock;  // as libjpeg, any other run ends the block
    std::fill_n(at, 1 << free_bits, ac_entry(length, advance, 0));
  } else if (size > free_bits) {
    std::fill_n(at, 1 << free_bits, ac_entry(0, kLongSymbol, length << 8 | symbol));
  } else {
    const int repeats = 1 << (free_bits - size);
    for (int bits = 0; bits < 1 << size; ++bits, at += repeats) {
      const int value = bits < 1 << (size - 1) ? bits - (1 << size) + 1 : bits;
      std::fill_n(at, repeats, ac_entry(length + size, run + 1, value));
    }
  }
}

void fill_dc(uint32_t* at, int length, uint8_t symbol) {
  std::fill_n(at, 1 << (kLookBits - length), uint32_t(length) | uint32_t(symbol) << 8);
}

template <typename Fill>
Status build_table(const HuffmanSpec& spec, HuffmanTable& table, Fill fill) {
  std::copy(spec.symbols.begin(), spec.symbols.end(), table.symbols);
  uint32_t code = 0;
  int index = 0;
  for (int length = 1; length <= 16; ++length) {
    const int count = spec.counts[length - 1];
    table.symbol_offset[length] = index - int32_t(code);
    if (length <= kLookBits) {
      // No code may be all ones; checked first, so that the entries written exist.
      if (code + count >= 1u << length && count > 0) return Status::corrupt;
      for (int i = 0; i < count; ++i)
        fill(table.look + (size_t(code + i) << (kLookBits - length)), length,
             spec.symbols[index + i]);
    }
    index += count;
    code += count;
    if (count > 0 && code >= 1u << length) return Status::corrupt;
    table.limit[length] = code << (16 - length);
    if (length == kLookBits) std::fill(table.look + code, table.look + (1 << kLookBits), kUnknown);
    code <<= 1;
  }
  return Status::ok;
}

}  // namespace

Status build_dc_table(const HuffmanSpec& spec, HuffmanTable& table) {
  for (int i = 0; i < spec.symbol_count; ++i)
    if (spec.symbols[i] > 15) return Status::corrupt;
  return build_table(spec, table, fill_dc);
}

Status build_ac_table(const HuffmanSpec& spec, HuffmanTable& table) {
  return build_table(spec, table, fill_ac);
}

}  // namespace penstock
