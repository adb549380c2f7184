// Weights of a resize, arranged as its kernels (kernels/resize.h) read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.h"
#include "kernels.h"
#include "pixels.h"
#include "resize_taps.h"

namespace headrace {

// Two weights, split: the low parts in 16 bits each, the high parts in bytes, twice.
struct WeightPair {
  int32_t low, high;
};
WeightPair split_weights(const int32_t* weights);

// Horizontal pass.
class ColumnPass {
 public:
  // Arranges the weights of `taps`, which must stay valid.
  void prepare(const Taps& taps);

  // Resizes every line of `in` to a line of `out`.
  void run(const Planar& in, const Planar& out) { kernel_(*this, in, out); }

  // 32 outputs: two vectors of two halves, eight outputs per half, each with a pair of neighbouring
  // sources at a time. The pairs of a half are shuffled together from one load of 16 bytes, or from
  // two if they lie further apart.
  struct Block {
    int32_t base[2][4];          // [load][eight outputs]: its first source
    uint16_t shuffle[2][2][16];  // [load][vector]
  };
  // The weights of such a pair for each of these outputs, split.
  struct Pair {
    int16_t high[2][16];
    int32_t low[2][2][8];  // [vector][odd]
  };

  const Taps* taps = nullptr;
  int32_t pairs = 0;
  std::vector<Block> blocks;
  std::vector<Pair> weights;  // `pairs` a block
  // For sources that are too far apart: far_pairs() per output, each beginning at an even source.
  std::vector<WeightPair> far;
  size_t far_pairs() const { return size_t(taps->most) / 2 + 1; }
  Buffer<uint8_t> turned;

 private:
  void arrange(int32_t loads);
  void arrange_far();

  ColumnKernel kernel_ = nullptr;
};

// Vertical pass: two rows and their weights.
struct RowPair {
  const uint8_t* rows[2];
  WeightPair by;
};

}  // namespace headrace
