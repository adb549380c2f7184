// Progressive JPEG: all scans in, the coefficients of a region out.
#pragma once

#include <array>
#include <cstdint>

#include "buffer.h"
#include "jpeg_bands.h"
#include "jpeg_blocks.h"
#include "jpeg_headers.h"
#include "jpeg_planes.h"
#include "jpeg_progression.h"
#include "jpeg_stream.h"

namespace headrace {

// Reads every scan down to the last row of the region. Keeps coefficients inside the region only;
// of the blocks beside and above it, which coefficients are not zero.
//
// Incomplete files are unsupported (see Progression), and regions with more than kMaxBytes of
// coefficients.
class ProgressiveDecoder {
 public:
  static constexpr size_t kMaxBytes = 128 << 20;

  // `parser` and `headers` stand at the first scan; they move to the last.
  Status decode(Bytes jpeg, HeaderParser& parser, Headers& headers, Region region);

  // After decoding: the blocks of one row of a component that lie in the region. They must be
  // cleared before the next image.
  int16_t* row(int c, int32_t block_row) const;
  int32_t columns(int c) const { return planes_[c].columns; }
  // After decoding the whole image: all blocks of a component.
  BlockPlane blocks(int c) const;
  // Clears all blocks.
  void clear();
  // Frees the memory of a giant.
  void trim();

 private:
  struct Plane {                       // of one component
    int32_t left, top, columns, rows;  // of the region, in blocks; those of padding too
    int32_t all_columns;               // without padding
    int16_t* coefficients;             // [rows][columns][64]
    uint64_t* nonzero;                 // [top + rows][all_columns], see BandBlocks
  };
  struct Part {  // a component's blocks in each MCU of a scan: h x v, from block `first` on
    int component, h, v, first;
  };

  Status reserve(const Headers& headers, Region region);
  Status decode_scan(Bytes jpeg, const Headers& headers);
  Status decode_dc_scan(const Headers& headers);
  Status decode_band_scan(const Headers& headers);
  Status build_dc_tables(const Headers& headers);
  void add_parts(const Headers& headers);
  void store_dc(int32_t mcu_row, const Scan& scan);
  void read_bits(int32_t mcus, int32_t* out);
  Status begin_interval();
  template <typename Decode>
  Status decode_mcus(int32_t count, Decode decode);

  Region region_{};
  Progression progression_;
  std::array<Plane, kMaxComponents> planes_{};
  Buffer<int16_t> coefficients_;
  Buffer<uint64_t> nonzero_;
  size_t used_ = 0;  // of coefficients_

  // Of the current scan.
  ScanStream stream_;
  BitSpan* span_ = nullptr;
  int64_t interval_ = 0, interval_left_ = 0;  // MCUs
  size_t segment_ = 0;
  int part_count_ = 0;
  std::array<Part, kMaxComponents> parts_{};
  std::array<DcTable, 4> dc_tables_;
  Buffer<int32_t> dc_values_;  // of a row
  DcScan dc_;
  BandScan band_;
};

}  // namespace headrace
