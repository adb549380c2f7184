#include "jpeg_huffman.h"

#include <algorithm>

namespace penstock {
namespace {

AcEntry lone(int length, int advance, int value) {
  return {uint8_t(length),  uint8_t(advance), uint8_t(length),
          uint8_t(advance), int16_t(value),   int16_t(value)};
}

const AcEntry kUnknownAc = lone(0, kLongSymbol, 0);

// All entries that begin with one code: one for each value that fits behind it.
void fill_ac(AcEntry* at, int length, uint8_t symbol) {
  const int size = symbol & 15, run = symbol >> 4;
  const int free_bits = kLookBits - length;
  if (size == 0) {
    const int advance = run == 15 ? 16 : kEndOfBlock;  // as libjpeg, any other run ends the block
    std::fill_n(at, 1 << free_bits, lone(length, advance, 0));
  } else if (size > free_bits) {
    std::fill_n(at, 1 << free_bits, lone(0, kLongSymbol, length << 8 | symbol));
  } else {
    const int repeats = 1 << (free_bits - size);
    for (int bits = 0; bits < 1 << size; ++bits, at += repeats) {
      const int value = bits < 1 << (size - 1) ? bits - (1 << size) + 1 : bits;
      std::fill_n(at, repeats, lone(length + size, run + 1, value));
    }
  }
}

// Joins each symbol with the one behind it, where that fits too.
void join_pairs(AcEntry* look) {
  AcEntry lone_entries[1 << kLookBits];
  std::copy_n(look, 1 << kLookBits, lone_entries);
  for (int i = 0; i < 1 << kLookBits; ++i) {
    const AcEntry& first = lone_entries[i];
    if (first.advance >= kEndOfBlock) continue;
    const AcEntry& second = lone_entries[i << first.length & ((1 << kLookBits) - 1)];
    if (second.advance >= kEndOfBlock || first.length + second.length > kLookBits) continue;
    look[i].length = uint8_t(first.length + second.length);
    look[i].advance = uint8_t(first.advance + second.advance);
    look[i].value = second.value;
  }
}

void fill_dc(uint16_t* at, int length, uint8_t symbol) {
  std::fill_n(at, 1 << (kLookBits - length), uint16_t(length | symbol << 8));
}

template <typename Table, typename Fill, typename Entry>
Status build_table(const HuffmanSpec& spec, Table& table, Fill fill, Entry unknown) {
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
    if (length == kLookBits) std::fill(table.look + code, table.look + (1 << kLookBits), unknown);
    code <<= 1;
  }
  return Status::ok;
}

}  // namespace

Status build_dc_table(const HuffmanSpec& spec, DcTable& table) {
  for (int i = 0; i < spec.symbol_count; ++i)
    if (spec.symbols[i] > 15) return Status::corrupt;
  return build_table(spec, table, fill_dc, uint16_t(0));
}

Status build_ac_table(const HuffmanSpec& spec, AcTable& table) {
  const Status status = build_table(spec, table, fill_ac, kUnknownAc);
  if (status == Status::ok) join_pairs(table.look);
  return status;
}

}  // namespace penstock
