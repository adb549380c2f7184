// Seek tables: entry points into the entropy-coded data of a JPEG that stays as it is.
//
// A table holds, for every `step`-th MCU of each MCU row, the bit at which it begins and the DC
// predictors before it. It is bound to its picture by the size of the file and by a checksum over
// the headers, so that a table of another picture, or a damaged one, is recognised.
//
//   varint size of the JPEG, varint step,
//   for each entry but the first: varint bits since the last entry (stuffed zeros included),
//   and for each component a zigzag varint: change of the predictor since the last entry;
//   uint32 little-endian CRC-32C of the JPEG up to its scan, followed by all of the above.
//
// An empty table is valid and means: begin at the top left corner.
#pragma once

#include <cstdint>
#include <vector>

#include "jpeg_headers.h"

namespace penstock {

struct SeekEntry {
  uint64_t bit = 0;  // counted from the start of the scan's data, stuffed zeros included
  int32_t predictors[kMaxComponents] = {0, 0, 0};
};

struct SeekTable {
  int32_t step = 0;  // 0: no table
  int32_t per_row = 0;
  std::vector<SeekEntry> entries;  // [mcu_rows][per_row]

  void set_step(int32_t mcu_cols, int32_t mcus) {
    step = mcus;
    per_row = divide_up(mcu_cols, mcus);
  }
};

// Files with restart markers or several scans have no tables.
bool can_seek(const Headers& headers);

void write_seek(const SeekTable& table, Bytes jpeg, const Headers& headers,
                std::vector<uint8_t>& out);

// False, and a table with step 0, unless `seek` was made for exactly this picture.
bool read_seek(Bytes seek, Bytes jpeg, const Headers& headers, SeekTable& table);

// The step that keeps the table within its budget, or 0 if none does.
int32_t choose_step(Bytes jpeg, const Headers& headers);

// Drops every second entry of each row.
void thin_out(SeekTable& table, const Headers& headers);

// At most 1.5 % of the picture.
constexpr size_t seek_budget(Bytes jpeg) { return jpeg.size * 3 / 200; }

}  // namespace penstock
