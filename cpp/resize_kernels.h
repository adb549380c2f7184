// The two passes of a resize over planar lines: sums of products, rounded and clipped to a byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pixels.h"
#include "resize_taps.h"

namespace penstock {

// Horizontal pass. Keeps the weights in the order in which SIMD takes them.
class ColumnPass {
 public:
  // For the outputs of `taps`, which has to stay.
  void prepare(const Taps& taps);

  // Makes all lines of `out` from as many lines of `in`.
  void run(const Planar& in, const Planar& out) const { kernel_(*this, in, out); }

  // 32 outputs: two registers of two lanes, eight outputs a lane, each with two neighbouring
  // sources at a time. Those are shuffled together from one load a lane if they lie near to each
  // other, else from two.
  struct Block {
    int32_t base[2][4];          // [load][eight outputs]: where the load begins
    uint16_t shuffle[2][2][16];  // [load][register]
  };
  // Two weights of each of these outputs, split as the kernels need them.
  struct Pair {
    int16_t high[2][16];
    int32_t low[2][2][8];  // [register][odd]
  };

  // Weights of one output whose sources lie far from those of its neighbours.
  struct Sixteen {
    int16_t low[16], high[16];
  };

  const Taps* taps = nullptr;
  int32_t pairs = 0;
  std::vector<Block> blocks;
  std::vector<Pair> weights;  // `pairs` a block
  std::vector<Sixteen> wide;  // steps() an output
  size_t steps() const { return (size_t(taps->most) + 15) / 16; }

 private:
  void arrange(int32_t loads);
  void arrange_wide();

  void (*kernel_)(const ColumnPass&, const Planar& in, const Planar& out) = nullptr;
};

// Two rows, and what an output row takes of each.
struct RowPair {
  const uint8_t* rows[2];
  int32_t weights[2];
};

// Vertical pass: makes `bytes` bytes, at least kLineUnit, from the same bytes of those rows.
void resample_rows(const RowPair* window, int32_t pairs, uint8_t* out, size_t bytes);

}  // namespace penstock
