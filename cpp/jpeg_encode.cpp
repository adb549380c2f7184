#include "jpeg_encode.h"

#include <algorithm>

#include "jpeg_markers.h"

namespace headrace {
namespace {

constexpr int kMaxDcBits = 11, kMaxAcBits = 10;  // T.81, F.1.2: of 8-bit samples
constexpr int kTables = 2;                       // of each class, in baseline
constexpr int kSymbols = 256;
constexpr int kEndOfBlockSymbol = 0x00, kSixteenZerosSymbol = 0xF0;

using Counts = std::array<uint32_t, kSymbols>;

struct Code {
  uint16_t bits = 0;
  uint8_t length = 0;
};
using Codes = std::array<Code, kSymbols>;

// Returns the SSSS of a value: how many bits its magnitude has.
int count_bits(int32_t value) {
  return value == 0 ? 0 : 32 - __builtin_clz(uint32_t(std::abs(value)));
}

// Returns the bits that follow a symbol: those of the value, less one if it is negative (F.1.2.1).
uint32_t find_extra_bits(int32_t value, int count) {
  return uint32_t(value < 0 ? value - 1 : value) & ((1u << count) - 1);
}

// Makes the shortest codes of at most 16 bits (T.81, K.2). No code is all ones, since a further
// symbol with the least count has that one.
class CodeLengths {
 public:
  explicit CodeLengths(const Counts& counts) {
    std::copy(counts.begin(), counts.end(), counts_.begin());
    counts_[kSymbols] = 1;
    merged_.fill(-1);
    for (;;) {
      const int least = find_least(-1), next = find_least(least);
      if (next < 0) break;
      merge(least, next);
    }
  }

  HuffmanSpec make_spec() const {
    std::array<int, kSymbols + 1> per_length{};
    for (const int length : lengths_)
      if (length > 0) ++per_length[size_t(length)];
    limit_lengths(per_length);
    HuffmanSpec spec;
    spec.defined = true;
    for (size_t length = 1; length <= 16; ++length)
      spec.counts[length - 1] = uint8_t(per_length[length]);
    for (int length = 1; length <= kSymbols; ++length)
      for (int symbol = 0; symbol < kSymbols; ++symbol)
        if (lengths_[size_t(symbol)] == length)
          spec.symbols[size_t(spec.symbol_count++)] = uint8_t(symbol);
    return spec;
  }

 private:
  // Returns the symbol with the least count, of several the last one; -1 if there is none.
  int find_least(int other) const {
    int found = -1;
    for (int i = 0; i <= kSymbols; ++i)
      if (counts_[size_t(i)] > 0 && i != other &&
          (found < 0 || counts_[size_t(i)] <= counts_[size_t(found)]))
        found = i;
    return found;
  }

  // Joins two trees: each of their symbols gets one bit more.
  void merge(int a, int b) {
    counts_[size_t(a)] += counts_[size_t(b)];
    counts_[size_t(b)] = 0;
    for (++lengths_[size_t(a)]; merged_[size_t(a)] >= 0; ++lengths_[size_t(a)])
      a = merged_[size_t(a)];
    merged_[size_t(a)] = b;
    for (++lengths_[size_t(b)]; merged_[size_t(b)] >= 0; ++lengths_[size_t(b)])
      b = merged_[size_t(b)];
  }

  // Moves codes that are too long (figure K.3), and drops the one that is all ones.
  static void limit_lengths(std::array<int, kSymbols + 1>& per_length) {
    for (size_t length = kSymbols; length > 16; --length)
      while (per_length[length] > 0) {
        size_t shorter = length - 2;
        while (per_length[shorter] == 0) --shorter;
        per_length[length] -= 2;
        ++per_length[length - 1];
        per_length[shorter + 1] += 2;
        --per_length[shorter];
      }
    size_t longest = 16;
    while (per_length[longest] == 0) --longest;
    --per_length[longest];
  }

  std::array<uint64_t, kSymbols + 1> counts_;
  std::array<int, kSymbols + 1> lengths_{};
  std::array<int, kSymbols + 1> merged_;  // the next symbol of a tree
};

Codes assign_codes(const HuffmanSpec& spec) {
  Codes codes;
  uint32_t bits = 0;
  size_t next = 0;
  for (size_t length = 1; length <= 16; ++length, bits <<= 1)
    for (int i = 0; i < spec.counts[length - 1]; ++i)
      codes[spec.symbols[next++]] = {uint16_t(bits++), uint8_t(length)};
  return codes;
}

class Writer {
 public:
  explicit Writer(std::vector<uint8_t>& out) : out_(out) {}

  void put_byte(int value) { out_.push_back(uint8_t(value)); }
  void put_u16(int value) {
    put_byte(value >> 8);
    put_byte(value & 255);
  }
  void begin_segment(uint8_t marker, int size) {
    put_byte(0xFF);
    put_byte(marker);
    put_u16(size + 2);
  }
  void put_bits(uint32_t bits, int count) {
    pending_ = pending_ << count | bits;
    pending_count_ += count;
    while (pending_count_ >= 8) {
      pending_count_ -= 8;
      const auto byte = uint8_t(pending_ >> pending_count_);
      put_byte(byte);
      if (byte == 0xFF) put_byte(0);
    }
  }
  void end_bits() {
    if (pending_count_ > 0) put_bits(0xFF >> pending_count_ & 0xFF, 8 - pending_count_);
  }

 private:
  std::vector<uint8_t>& out_;
  uint64_t pending_ = 0;
  int pending_count_ = 0;
};

// Calls emit(symbol, bits, count) for each symbol of a block's AC coefficients and the bits behind
// it. Returns false if there are too many of them.
template <typename Emit>
bool code_ac(const int16_t* block, Emit emit) {
  int run = 0;
  for (int k = 1; k < kBlockSize; ++k) {
    const int32_t value = block[kNaturalOrder[k]];
    if (value == 0) {
      ++run;
      continue;
    }
    for (; run > 15; run -= 16) emit(kSixteenZerosSymbol, 0, 0);
    const int count = count_bits(value);
    if (count > kMaxAcBits) return false;
    emit(run << 4 | count, find_extra_bits(value, count), count);
    run = 0;
  }
  if (run > 0) emit(kEndOfBlockSymbol, 0, 0);
  return true;
}

// Passes over an image in the order of one interleaved scan.
class BaselineEncoder {
 public:
  BaselineEncoder(const Headers& headers, const BlockPlanes& planes)
      : headers_(headers), planes_(planes) {
    Scan& scan = headers_.scan;
    scan = Scan();
    scan.count = headers.component_count;
    for (uint8_t c = 0; c < scan.count; ++c) {
      const uint8_t table = c > 0 && headers.color == ColorSpace::ycc ? 1 : 0;
      scan.components[c] = {c, table, table};
    }
    scan.mcu_cols = headers.mcu_cols;
    scan.mcu_rows = headers.mcu_rows;
  }

  bool encode(std::vector<uint8_t>& out) {
    std::array<Counts, kTables> dc{}, ac{};
    const bool codable = pass([&](int table, bool is_dc, int symbol, uint32_t, int) {
      ++(is_dc ? dc : ac)[size_t(table)][size_t(symbol)];
    });
    if (!codable) return false;
    const int tables = headers_.scan.components[size_t(headers_.scan.count - 1)].dc_slot + 1;
    Writer writer(out);
    put_quantisation(writer);
    put_frame(writer);
    std::array<Codes, kTables> dc_codes, ac_codes;
    for (int table = 0; table < tables; ++table) {
      const auto t = size_t(table);
      dc_codes[t] = put_table(writer, table, CodeLengths(dc[t]).make_spec());
      ac_codes[t] = put_table(writer, 0x10 | table, CodeLengths(ac[t]).make_spec());
    }
    put_scan(writer);
    pass([&](int table, bool is_dc, int symbol, uint32_t bits, int count) {
      const Code code = (is_dc ? dc_codes : ac_codes)[size_t(table)][size_t(symbol)];
      writer.put_bits(uint32_t(code.bits) << count | bits, code.length + count);
    });
    writer.end_bits();
    return true;
  }

 private:
  // Calls emit(table, whether it is of the DC class, symbol, bits, their count) for all symbols.
  template <typename Emit>
  bool pass(Emit emit) const {
    std::array<int32_t, kMaxComponents> predictors{};
    const int64_t mcus = int64_t(headers_.mcu_cols) * headers_.mcu_rows;
    return visit_blocks(headers_, 0, mcus, [&](int c, int32_t row, int32_t column) {
      const int table = headers_.scan.components[size_t(c)].dc_slot;
      const Component& component = headers_.components[size_t(c)];
      if (row >= component.block_rows || column >= component.block_cols) {  // padding
        emit(table, true, 0, 0, 0);
        emit(table, false, kEndOfBlockSymbol, 0, 0);
        return true;
      }
      const int16_t* block = planes_[size_t(c)].block(row, column);
      const int32_t difference = block[0] - predictors[size_t(c)];
      predictors[size_t(c)] = block[0];
      const int count = count_bits(difference);
      if (count > kMaxDcBits) return false;
      emit(table, true, count, find_extra_bits(difference, count), count);
      return code_ac(block, [&](int symbol, uint32_t bits, int extra) {
        emit(table, false, symbol, bits, extra);
      });
    });
  }

  bool is_deep(int c) const {
    const auto& quant = headers_.components[size_t(c)].quant;
    return std::any_of(quant.begin(), quant.end(), [](int16_t q) { return uint16_t(q) > 255; });
  }

  // Returns the slot of a component's table: the first component that has the same one. The slots
  // of the original file may have been used twice.
  int find_slot(int c) const {
    int slot = 0;
    while (headers_.components[size_t(slot)].quant != headers_.components[size_t(c)].quant) ++slot;
    return slot;
  }

  void put_quantisation(Writer& writer) const {
    for (int c = 0; c < headers_.component_count; ++c) {
      if (find_slot(c) != c) continue;
      const bool deep = is_deep(c);
      writer.begin_segment(DQT, 1 + kBlockSize * (deep ? 2 : 1));
      writer.put_byte(deep << 4 | c);
      for (const uint8_t position : kNaturalOrder) {
        const auto value = uint16_t(headers_.components[size_t(c)].quant[position]);
        deep ? writer.put_u16(value) : writer.put_byte(value);
      }
    }
  }

  void put_frame(Writer& writer) const {
    bool deep = false;
    for (int c = 0; c < headers_.component_count; ++c) deep |= is_deep(c);
    writer.begin_segment(deep ? SOF1 : SOF0, 6 + 3 * headers_.component_count);
    writer.put_byte(8);
    writer.put_u16(headers_.height);
    writer.put_u16(headers_.width);
    writer.put_byte(headers_.component_count);
    for (int c = 0; c < headers_.component_count; ++c) {
      const Component& component = headers_.components[size_t(c)];
      writer.put_byte(component.id);
      writer.put_byte(component.h << 4 | component.v);
      writer.put_byte(find_slot(c));
    }
  }

  static Codes put_table(Writer& writer, int slot, const HuffmanSpec& spec) {
    writer.begin_segment(DHT, 17 + spec.symbol_count);
    writer.put_byte(slot);
    for (const uint8_t count : spec.counts) writer.put_byte(count);
    for (int i = 0; i < spec.symbol_count; ++i) writer.put_byte(spec.symbols[size_t(i)]);
    return assign_codes(spec);
  }

  void put_scan(Writer& writer) const {
    const Scan& scan = headers_.scan;
    writer.begin_segment(SOS, 4 + 2 * scan.count);
    writer.put_byte(scan.count);
    for (int c = 0; c < scan.count; ++c) {
      writer.put_byte(headers_.components[size_t(c)].id);
      writer.put_byte(scan.components[size_t(c)].dc_slot * 0x11);
    }
    writer.put_byte(0);
    writer.put_byte(63);
    writer.put_byte(0);
  }

  Headers headers_;
  const BlockPlanes& planes_;
};

}  // namespace

bool encode_baseline(const Headers& headers, const BlockPlanes& planes, std::vector<uint8_t>& out) {
  return BaselineEncoder(headers, planes).encode(out);
}

}  // namespace headrace
