#include "jpeg_seek.h"

#include <cstring>

#include "crc32c.h"

namespace headrace {
namespace {

constexpr size_t kChecksumBytes = 4;
constexpr int kMaxWidth = 25;  // a field spans at most four bytes, whichever bit it begins at

template <typename T>
T load(const uint8_t* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

void put(uint32_t value, int bytes, std::vector<uint8_t>& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(uint8_t(value >> 8 * i));
}

// The number of bits of each field of an entry.
struct Widths {
  int components;
  int distance = 0, predictors[kMaxComponents] = {0, 0, 0};

  bool are_valid() const {
    return is_valid(distance) && std::all_of(predictors, predictors + components, is_valid);
  }
  size_t sum() const { return size_t(distance + predictors[0] + predictors[1] + predictors[2]); }
  size_t header() const { return 7 + size_t(components); }
  size_t size(size_t entries) const { return header() + ((entries - 1) * sum() + 7) / 8; }

 private:
  static bool is_valid(int width) { return width > 0 && width <= kMaxWidth; }
};

// Returns the widths that all entries fit into.
Widths find_widths(const std::vector<SeekEntry>& entries, int components) {
  uint64_t distances = 0, magnitudes[kMaxComponents] = {0, 0, 0};
  for (size_t i = 1; i < entries.size(); ++i) {
    distances |= entries[i].bit - entries[i - 1].bit;
    for (int c = 0; c < components; ++c) {
      const int32_t value = entries[i].predictors[c];
      magnitudes[c] |= uint32_t(value ^ value >> 31);
    }
  }
  const auto width = [](uint64_t bits) { return bits == 0 ? 0 : 64 - __builtin_clzll(bits); };
  Widths widths{components};
  widths.distance = width(distances);
  for (int c = 0; c < components; ++c) widths.predictors[c] = width(magnitudes[c]) + 1;
  return widths;
}

uint32_t checksum(Bytes jpeg, const Headers& headers, const uint8_t* table, size_t size) {
  return crc32c(crc32c(0, jpeg.data, headers.scan.data), table, size);
}

class BitWriter {
 public:
  explicit BitWriter(std::vector<uint8_t>& out) : out_(out) {}
  void put(uint32_t value, int width) {
    bits_ |= (value & ((uint64_t(1) << width) - 1)) << count_;
    for (count_ += width; count_ >= 8; count_ -= 8, bits_ >>= 8) out_.push_back(uint8_t(bits_));
  }
  void finish() {
    if (count_ > 0) out_.push_back(uint8_t(bits_));
  }

 private:
  std::vector<uint8_t>& out_;
  uint64_t bits_ = 0;
  int count_ = 0;
};

// May read beyond the last field: the checksum follows it.
uint32_t get_bits(const uint8_t* data, size_t at, int width) {
  return load<uint32_t>(data + at / 8) >> at % 8 & ((1u << width) - 1);
}

void read_entry(const uint8_t* data, size_t& at, const Widths& widths, SeekEntry& entry) {
  entry.bit += get_bits(data, at, widths.distance);
  at += size_t(widths.distance);
  for (int c = 0; c < widths.components; ++c) {
    const int width = widths.predictors[c];
    entry.predictors[c] = int32_t(get_bits(data, at, width) << (32 - width)) >> (32 - width);
    at += size_t(width);
  }
}

}  // namespace

void SeekTable::set_step(int32_t mcu_cols, int32_t mcus) {
  step = mcus;
  half = divide_up(mcu_cols, 2);
  dense = divide_up(half, step);
  sparse = divide_up(half, 4 * step);
  per_row = find(mcu_cols - 1) + 1;
}

bool can_seek(const Headers& headers) {
  return headers.single_scan() && headers.restart_interval == 0;
}

SeekTable thin_out(const SeekTable& finest, const Headers& headers, int32_t step) {
  SeekTable thin;
  thin.set_step(headers.mcu_cols, step);
  for (size_t row = 0; row < finest.entries.size(); row += size_t(finest.per_row))
    for (int32_t i = 0; i < thin.per_row; ++i)
      thin.entries.push_back(finest.entries[row + size_t(finest.find(thin.column(i)))]);
  return thin;
}

bool write_seek(const SeekTable& table, Bytes jpeg, const Headers& headers, size_t most,
                std::vector<uint8_t>& out) {
  const Widths widths = find_widths(table.entries, headers.component_count);
  if (!widths.are_valid() || widths.size(table.entries.size()) + kChecksumBytes > most)
    return false;
  put(uint32_t(jpeg.size), 4, out);
  put(uint32_t(table.step), 2, out);
  put(uint32_t(widths.distance), 1, out);
  for (int c = 0; c < widths.components; ++c) put(uint32_t(widths.predictors[c]), 1, out);
  BitWriter writer(out);
  for (size_t i = 1; i < table.entries.size(); ++i) {
    writer.put(uint32_t(table.entries[i].bit - table.entries[i - 1].bit), widths.distance);
    for (int c = 0; c < widths.components; ++c)
      writer.put(uint32_t(table.entries[i].predictors[c]), widths.predictors[c]);
  }
  writer.finish();
  put(checksum(jpeg, headers, out.data(), out.size()), kChecksumBytes, out);
  return true;
}

bool read_seek(Bytes seek, Bytes jpeg, const Headers& headers, int32_t top, int32_t bottom,
               SeekTable& table) {
  Widths widths{headers.component_count};
  if (seek.size < widths.header() + kChecksumBytes || !can_seek(headers)) return false;
  const size_t size = seek.size - kChecksumBytes;
  if (load<uint32_t>(seek.data + size) != checksum(jpeg, headers, seek.data, size)) return false;
  const int32_t step = load<uint16_t>(seek.data + 4);
  if (load<uint32_t>(seek.data) != uint32_t(jpeg.size) || step == 0) return false;
  widths.distance = seek.data[6];
  std::copy_n(seek.data + 7, widths.components, widths.predictors);
  table.set_step(headers.mcu_cols, step);
  const size_t count = size_t(table.per_row) * size_t(headers.mcu_rows);
  if (!widths.are_valid() || size != widths.size(count)) return false;

  table.entries.resize(count);
  const size_t begin = size_t(top) * size_t(table.per_row);
  const size_t end = std::min(size_t(bottom) * size_t(table.per_row) + 1, count);
  SeekEntry entry;
  size_t at = widths.header() * 8;
  for (size_t i = 1; i < begin; ++i, at += widths.sum())
    entry.bit += get_bits(seek.data, at, widths.distance);
  for (size_t i = begin; i < end; ++i) {
    if (i > 0) read_entry(seek.data, at, widths, entry);
    if (entry.bit / 8 >= jpeg.size - headers.scan.data) return false;
    table.entries[i] = entry;
  }
  return true;
}

}  // namespace headrace
