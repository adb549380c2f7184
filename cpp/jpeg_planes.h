// Samples in, pixels out: holds a strip of each component's plane and writes complete rows.
#pragma once

#include <array>
#include <cstdint>

#include "buffer.h"
#include "jpeg_headers.h"

namespace headrace {

// The MCUs that a box needs, including the margin that upsampling reads.
struct Region {
  int32_t left, top, right, bottom;
};

// How libjpeg-turbo upsamples a component.
struct Scaling {
  int h_factor = 1, v_factor = 1;
  bool smooth_h = false, smooth_v = false;  // otherwise every sample is repeated

  static Scaling of(const Headers& headers, const Component& component);
};

Region find_region(const Headers& headers, Box box);

class Planes {
 public:
  // Reserves memory for strips of `strip_rows` MCU rows.
  void begin(const Headers& headers, Box box, Region region, int32_t strip_rows);
  // Moves the strip to the MCU rows from `top` on; rows that are still needed are carried over.
  void move_to(int32_t top);
  // Returns where the block at (row, col) of a component's whole plane goes.
  uint8_t* block(int c, int32_t row, int32_t col);
  size_t stride(int c) const { return size_t(planes_[c].stride); }
  // Writes the pixel rows that are complete now that all MCU rows above `bottom` are there.
  void write_rows(int32_t bottom, const Planar& out);
  // Frees the samples if they take more than `limit` bytes.
  void trim(size_t limit) { samples_.trim(limit); }

 private:
  struct Plane {
    uint8_t* samples = nullptr;  // of row `top`, column `left`
    ptrdiff_t stride = 0;
    int32_t left = 0, top = 0, carried = 0, rows = 0;
    Scaling scaling;
  };

  uint8_t* row(int c, int32_t y) const;
  void replicate_edges(int c, int32_t y);
  const uint8_t* full_row(int c, int32_t y);

  const Headers* headers_ = nullptr;
  Box box_{};
  Region region_{};
  int32_t strip_top_ = 0, next_row_ = 0;
  bool looks_below_ = false;
  std::array<Plane, kMaxComponents> planes_;
  Buffer<uint8_t> samples_, rows_;
  ptrdiff_t full_stride_ = 0;
};

}  // namespace headrace
