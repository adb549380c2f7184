// Seek tables: entry points into the entropy-coded data of a JPEG that stays as it is.
//
// A table holds, for some MCUs of each MCU row, the bit at which they begin and the DC predictors
// before them. It is bound to its picture by the size of the file and by a checksum over the
// headers, so that a table of another picture, or a damaged one, is recognised.
//
//   uint32 size of the JPEG, uint16 step, all numbers little-endian,
//   uint8 bits that a distance takes, uint8 bits that a predictor takes for each component: 1 to
//   25, for each entry but the first, packed from the lowest bit of each byte on: its distance from
//   the last entry in bits (stuffed zeros included), its predictors in two's complement, zeros up
//   to a whole byte, uint32 CRC-32C of the JPEG up to its scan, followed by all of the above.
//
// An empty table is valid and means: begin at the top left corner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "jpeg_headers.h"

namespace headrace {

struct SeekEntry {
  uint64_t bit = 0;  // counted from the start of the scan's data, stuffed zeros included
  int32_t predictors[kMaxComponents] = {0, 0, 0};
};

// Entries lie at every `step`-th MCU in the left half of a row, and at every fourth of these in the
// right half: nine of ten random crops begin on the left.
struct SeekTable {
  int32_t step = 0;                // 0: no table
  int32_t half = 0;                // columns of the left half
  int32_t dense = 0, per_row = 0;  // entries of the left half, and of a row
  int32_t sparse = 0;  // the first multiple of 4 * step in the right half, divided by that
  std::vector<SeekEntry> entries;  // [mcu_rows][per_row]

  void set_step(int32_t mcu_cols, int32_t mcus);
  // The column of the i-th entry of a row, and the last entry that is not behind a column.
  int32_t column(int32_t i) const { return i < dense ? i * step : (sparse + i - dense) * 4 * step; }
  int32_t find(int32_t column) const {
    if (column < half) return column / step;
    return dense + std::max(column / (4 * step) - sparse, -1);
  }
};

// Files with restart markers or several scans have no tables.
bool can_seek(const Headers& headers);

// The step of a table from which any other can be thinned out: a multiple of it.
constexpr int32_t kFinestStep = 2;
SeekTable thin_out(const SeekTable& finest, const Headers& headers, int32_t step);

// False, and nothing is written, if that would take more than `most` bytes.
bool write_seek(const SeekTable& table, Bytes jpeg, const Headers& headers, size_t most,
                std::vector<uint8_t>& out);

// The entries of the rows [top, bottom) and the one behind them; others are left as they were.
// False, and a table that is not to be used, unless `seek` was made for exactly this picture.
bool read_seek(Bytes seek, Bytes jpeg, const Headers& headers, int32_t top, int32_t bottom,
               SeekTable& table);

// At most 1.5 % of the picture.
constexpr size_t seek_budget(Bytes jpeg) { return jpeg.size * 3 / 200; }

// Whether no table is likely to fit: entries hardly ever take less than three bytes.
constexpr bool too_small_to_seek(Bytes jpeg, const Headers& headers) {
  return seek_budget(jpeg) < size_t(3 * headers.mcu_rows + 10);
}

}  // namespace headrace
