#include "jpeg_huffman.h"

#include <algorithm>
#include <cstring>

namespace headrace {
namespace {

constexpr int kMaxShortSize = 7;  // larger values do not fit into an int8_t
constexpr AcEntry kUnknownAc{kLongSymbol, 0, 0, 0};

// Fills all entries that begin with one code: some for each value that can follow it.
void fill_ac(AcTable& table, size_t at, int length, uint8_t symbol) {
  const int size = symbol & 15, run = symbol >> 4, free_bits = kLookupBits - length;
  const auto fill = [&](int count, int bits, AcEntry entry) {
    std::fill_n(table.length + at, count, uint8_t(bits));
    std::fill_n(table.lookup + at, count, entry);
    at += size_t(count);
  };
  if (size == 0 && run != 15) {  // as libjpeg, any run but 15 ends the block
    fill(1 << free_bits, length, {kEndOfBlock, 0, 0, 0});
  } else if (size > free_bits || size > kMaxShortSize) {
    fill(1 << free_bits, 0, {kLongSymbol, uint8_t(length), 0, int8_t(symbol)});
  } else {
    const auto advance = uint8_t(run + 1);
    for (int bits = 0; bits < 1 << size; ++bits) {
      const auto value = int8_t(2 * bits < 1 << size ? bits - (1 << size) + 1 : bits);
      fill(1 << (free_bits - size), length + size, {advance, advance, value, 0});
    }
  }
}

// What follows a symbol in the bits that it leaves: another symbol, an end of block, or both.
struct Following {
  AcEntry entry;  // to be added to the entry of the symbol
  uint8_t length;
};

Following find_following(const AcTable& lone, size_t at, int room) {
  Following found{{0, 0, 0, 0}, 0};
  const auto fits = [&] { return found.length + lone.length[at] <= room; };
  if (lone.lookup[at].advance < kEndOfBlock && fits()) {
    found = {{lone.lookup[at].advance, 0, 0, lone.lookup[at].first_value}, lone.length[at]};
    at = at << found.length & ((1 << kLookupBits) - 1);
  }
  if (lone.lookup[at].advance == kEndOfBlock && fits()) {
    found.entry.advance = uint8_t(found.entry.advance + kEndOfBlock);
    found.length = uint8_t(found.length + lone.length[at]);
  }
  return found;
}

// Joins each symbol with the one behind it and with an end of block, where they fit. Symbols of the
// same length leave the same bits, so what can follow them is found once. Entries are added as
// words: no byte of them overflows.
void join_symbols(AcTable& table) {
  constexpr size_t count = 1 << kLookupBits;
  const AcTable lone = table;
  std::copy_n(lone.length, count, table.first_length);
  uint32_t entries[count];  // for `size` possible bits, at [size, 2 * size)
  uint8_t lengths[count];
  size_t known = 0;
  for (size_t at = 0, size; at < count; at += size) {
    size = 1;
    if (lone.lookup[at].advance >= kEndOfBlock) continue;
    const int length = lone.length[at], room = kLookupBits - length;
    size <<= room;
    for (size_t i = 0; i < size && !(known & size); ++i) {
      const Following found = find_following(lone, i << length, room);
      std::memcpy(entries + size + i, &found.entry, sizeof(AcEntry));
      lengths[size + i] = found.length;
    }
    known |= size;
    uint32_t symbol;
    std::memcpy(&symbol, lone.lookup + at, sizeof(AcEntry));
    for (size_t i = 0; i < size; ++i) {
      const uint32_t joined = symbol + entries[size + i];
      std::memcpy(table.lookup + at + i, &joined, sizeof(AcEntry));
      table.length[at + i] = uint8_t(length + lengths[size + i]);
    }
  }
}

// The same for a progressive scan. A value that would not fit into a coefficient is left to the
// decoder, which refuses it.
void fill_band(BandTable& table, size_t at, int length, uint8_t symbol, int low, int max_size) {
  const int run = symbol >> 4, size = symbol & 15, free_bits = kBandLookupBits - length;
  const bool ends = size == 0 && run != 15;
  const int extra = ends ? run : size;
  const BandEntry too_long{uint8_t(length), kLongBandSymbol, int16_t(symbol)};
  BandEntry* entry = table.lookup + at;
  if (extra > free_bits || size > max_size) {
    std::fill_n(entry, 1 << free_bits, too_long);
    return;
  }
  const int count = 1 << (free_bits - extra);
  for (int bits = 0; bits < 1 << extra; ++bits, entry += count) {
    BandEntry filled{uint8_t(length + extra), uint8_t(run + 1), 0};
    if (ends) {
      filled.advance = kEndOfBand;
      filled.value = int16_t((1 << run) + bits);
    } else if (size == 0) {
      filled.advance = kSixteenZeros;
    } else {
      const int value = 2 * bits < 1 << size ? bits - (1 << size) + 1 : bits;
      filled.value = int16_t(value * (1 << low));
    }
    std::fill_n(entry, count, filled);
  }
}

void fill_dc(DcTable& table, size_t at, int length, uint8_t symbol) {
  std::fill_n(table.lookup + at, 1 << (kDcLookupBits - length), DcEntry{uint8_t(length), symbol});
}

template <int lookup_bits, typename Table, typename Fill, typename Entry>
Status build_table(const HuffmanSpec& spec, Table& table, Fill fill, Entry unknown) {
  std::copy(spec.symbols.begin(), spec.symbols.end(), table.codes.symbols);
  uint32_t code = 0;
  int index = 0;
  for (int length = 1; length <= 16; ++length) {
    const int count = spec.counts[length - 1];
    table.codes.symbol_offset[length] = index - int32_t(code);
    if (length <= lookup_bits) {
      // No code may be all ones; checked first, so that the entries written exist.
      if (code + count >= 1u << length && count > 0) return Status::corrupt;
      for (int i = 0; i < count; ++i)
        fill(table, size_t(code + i) << (lookup_bits - length), length, spec.symbols[index + i]);
    }
    index += count;
    code += count;
    if (count > 0 && code >= 1u << length) return Status::corrupt;
    table.codes.limit[length] = code << (16 - length);
    if (length == lookup_bits)
      std::fill(table.lookup + code, table.lookup + (1 << lookup_bits), unknown);
    code <<= 1;
  }
  return Status::ok;
}

}  // namespace

Status build_dc_table(const HuffmanSpec& spec, DcTable& table) {
  for (int i = 0; i < spec.symbol_count; ++i)
    if (spec.symbols[i] > 15) return Status::corrupt;
  return build_table<kDcLookupBits>(spec, table, fill_dc, DcEntry{0, 0});
}

Status build_ac_table(const HuffmanSpec& spec, AcTable& table) {
  const Status status = build_table<kLookupBits>(spec, table, fill_ac, kUnknownAc);
  std::copy_n(kNaturalOrder, kBlockSize, table.natural_order);
  if (status == Status::ok) join_symbols(table);
  return status;
}

Status build_band_table(const HuffmanSpec& spec, int low, bool refining, BandTable& table) {
  const int max_size = refining ? 1 : 15 - low;
  const auto fill = [=](BandTable& to, size_t at, int length, uint8_t symbol) {
    fill_band(to, at, length, symbol, low, max_size);
  };
  std::copy_n(kNaturalOrder, kBlockSize, table.natural_order);
  return build_table<kBandLookupBits>(spec, table, fill, BandEntry{0, kLongBandSymbol, 0});
}

}  // namespace headrace
