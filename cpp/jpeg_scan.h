// Decodes MCU rows of one scan into coefficients.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "jpeg_entropy.h"
#include "jpeg_headers.h"
#include "jpeg_seek.h"
#include "jpeg_stream.h"

namespace headrace {

// A component's blocks in each MCU of a scan: h x v, from block `first` on.
struct ScanPart {
  int component = 0, h = 1, v = 1, first = 0;
};

// The MCU columns [left, right).
struct Columns {
  int32_t left, right;
};

class ScanDecoder {
 public:
  // Builds the tables of the scan whose header was parsed last.
  Status begin(Bytes jpeg, const Headers& headers);

  int part_count() const { return part_count_; }
  const ScanPart& part(int i) const { return parts_[i]; }
  int blocks_per_mcu() const { return layout_.count; }
  int32_t mcu_cols() const { return mcu_cols_; }
  int32_t mcu_rows() const { return mcu_rows_; }

  // Without a seek table: rows must be decoded from top to bottom.
  void begin_sequential();
  Status decode_row(int32_t row, Columns columns, int16_t* coefficients);
  // Returns where the scan's data end; valid after begin_sequential().
  size_t end() const { return stream_.end(); }

  // With a seek table: decodes any rows [top, bottom). Status::corrupt or truncated can mean that
  // the table is wrong.
  Status decode_rows(const SeekTable& table, int32_t top, int32_t bottom, Columns columns,
                     int16_t* coefficients);

  // Finds the entries of a table whose step is set. The scan must satisfy can_seek().
  Status find_entries(SeekTable& table);

 private:
  template <typename Table>
  struct Built {
    HuffmanSpec spec;  // that the table was built from
    Table table;
  };

  Status build_tables(const Headers& headers);
  Status decode_mcus(int32_t skip, int32_t keep, int16_t* coefficients);
  bool add_row(const SeekTable& table, int32_t row, Columns columns, int16_t* coefficients,
               uint8_t*& stream);
  Bytes data() const { return {jpeg_.data + start_, jpeg_.size - start_}; }
  void restore_stuffing(SeekTable& table) const;

  Bytes jpeg_;
  size_t start_ = 0;
  int32_t mcu_cols_ = 0, mcu_rows_ = 0, restart_interval_ = 0;
  int part_count_ = 0;
  std::array<ScanPart, kMaxComponents> parts_;
  McuLayout layout_;
  // Kept from image to image: those written by the same program often have the same tables.
  std::array<Built<DcTable>, 4> dc_;
  std::array<Built<AcTable>, 4> ac_;
  ScanStream stream_;

  // Without a seek table.
  int64_t mcu_ = 0;
  Span span_;

  // With a seek table: spans, and the entries that they must end at.
  struct Check {
    uint64_t bit;
    const SeekEntry* entry;  // null if there is none
  };
  std::vector<Span> spans_;
  std::vector<Check> checks_;
};

}  // namespace headrace
