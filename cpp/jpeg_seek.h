// Seek tables: entry points into the entropy-coded data of an unmodified JPEG.
//
// A table holds the first bit of some MCUs of each MCU row and the DC predictors before them. The
// size of the file and a checksum over the headers bind it to its image, so that a damaged table or
// one of another image is detected. Layout, little-endian:
//
//   uint32        size of the JPEG
//   uint16        step
//   uint8         bits per distance, 1 to 25
//   uint8[...]    bits per predictor of each component, 1 to 25
//   bits          for each entry but the first, packed from the lowest bit on: distance from the
//                 previous entry in bits (stuffed zeros included), predictors in two's complement;
//                 then zeros up to a whole byte
//   uint32        CRC-32C of the JPEG up to its scan, continued over all of the above
//
// An empty table is valid and means that decoding begins at the top left corner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "jpeg_headers.h"

namespace headrace {

struct SeekEntry {
  uint64_t bit = 0;  // from the start of the scan's data, stuffed zeros included
  int32_t predictors[kMaxComponents] = {0, 0, 0};
};

// A row has an entry every `step` MCUs in its left half and every 4 * step in its right half,
// because nine of ten random crops begin on the left.
struct SeekTable {
  int32_t step = 0;                // 0: no table
  int32_t half = 0;                // columns of the left half
  int32_t dense = 0, per_row = 0;  // entries of the left half, and of a row
  int32_t sparse = 0;  // the first multiple of 4 * step in the right half, divided by that
  std::vector<SeekEntry> entries;  // [mcu_rows][per_row]

  void set_step(int32_t mcu_cols, int32_t mcus);
  // Returns the column of the i-th entry of a row, and the last entry at or before a column.
  int32_t column(int32_t i) const { return i < dense ? i * step : (sparse + i - dense) * 4 * step; }
  int32_t find(int32_t column) const {
    if (column < half) return column / step;
    return dense + std::max(column / (4 * step) - sparse, -1);
  }
};

// Returns false for files with restart markers or several scans.
bool can_seek(const Headers& headers);

// Coarser tables, with a multiple of this step, are made from the finest one.
constexpr int32_t kFinestStep = 2;
SeekTable thin_out(const SeekTable& finest, const Headers& headers, int32_t step);

// Returns false and writes nothing if the table has more than `most` bytes.
bool write_seek(const SeekTable& table, Bytes jpeg, const Headers& headers, size_t most,
                std::vector<uint8_t>& out);

// Reads the entries of the rows [top, bottom) and the one behind them. Returns false unless `seek`
// was made for exactly this image; the table must not be used then.
bool read_seek(Bytes seek, Bytes jpeg, const Headers& headers, int32_t top, int32_t bottom,
               SeekTable& table);

// At most 1.5 % of the file.
constexpr size_t seek_budget(Bytes jpeg) { return jpeg.size * 3 / 200; }

// Returns true if no table is likely to fit: entries rarely take less than three bytes.
constexpr bool too_small_to_seek(Bytes jpeg, const Headers& headers) {
  return seek_budget(jpeg) < size_t(3 * headers.mcu_rows + 10);
}

}  // namespace headrace
