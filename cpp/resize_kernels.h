// The two passes of a resize over planar lines: sums of products, rounded and clipped to a byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.h"
#include "pixels.h"
#include "resize_taps.h"

namespace headrace {

// Two weights, split as the kernels need them: the lows in 16 bits each, the highs in bytes, twice.
struct WeightPair {
  int32_t low, high;
};
WeightPair split_weights(const int32_t* weights);

// Horizontal pass. Keeps the weights in the order in which SIMD takes them.
class ColumnPass {
 public:
  // For the outputs of `taps`, which has to stay.
  void prepare(const Taps& taps);

  // Makes all lines of `out` from as many lines of `in`.
  void run(const Planar& in, const Planar& out) { kernel_(*this, in, out); }

  // 32 outputs: two registers of two lanes, eight outputs a lane, each with two neighbouring
  // sources at a time. Those are shuffled together from one load a lane if they lie near to each
  // other, else from two.
  struct Block {
    int32_t base[2][4];          // [load][eight outputs]: where the load begins
    uint16_t shuffle[2][2][16];  // [load][register]
  };
  // Two weights of each of these outputs, split.
  struct Pair {
    int16_t high[2][16];
    int32_t low[2][2][8];  // [register][odd]
  };

  const Taps* taps = nullptr;
  int32_t pairs = 0;
  std::vector<Block> blocks;
  std::vector<Pair> weights;  // `pairs` a block
  // Where neighbouring outputs have sources too far apart for that: far_pairs() an output, the
  // first weight of each for an even source.
  std::vector<WeightPair> far;
  size_t far_pairs() const { return size_t(taps->most) / 2 + 1; }
  Buffer<uint8_t> turned;

 private:
  void arrange(int32_t loads);
  void arrange_far();

  void (*kernel_)(ColumnPass&, const Planar& in, const Planar& out) = nullptr;
};

// Two rows, and what an output row takes of each.
struct RowPair {
  const uint8_t* rows[2];
  int32_t weights[2];
  WeightPair by;
};

// Vertical pass: makes `bytes` bytes, at least kLineUnit, from the same bytes of those rows.
void resample_rows(const RowPair* window, int32_t pairs, uint8_t* out, size_t bytes);

}  // namespace headrace
