#include "resize_weights.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace headrace {
namespace {

uint32_t high_of(int32_t weight) { return uint32_t(weight + 0x8000) >> 16 & 0xFF; }

// Returns how many loads of 16 bytes hold the first `sources` sources of any eight outputs.
int32_t count_loads(const std::vector<int32_t>& first, int32_t sources) {
  size_t share = 8;  // outputs per load
  for (size_t x = 0; x < first.size(); x += share)
    while (std::abs(first[x + share - 1] - first[x]) > 16 - sources) share /= 2;
  return int32_t(8 / share);
}

}  // namespace

WeightPair split_weights(const int32_t* weights) {
  return {int32_t(uint16_t(weights[0]) | uint32_t(weights[1]) << 16),
          int32_t((high_of(weights[0]) | high_of(weights[1]) << 8) * 0x10001)};
}

void ColumnPass::prepare(const Taps& taps_to_use) {
  taps = &taps_to_use;
  pairs = (taps->most + 1) / 2;
  const int32_t loads = pairs > 3 ? 0 : count_loads(taps->first, pairs * 2);
  if (loads == 1 || loads == 2) {
    kernel_ = kernels().columns_near[loads - 1][pairs - 1];
    arrange(loads);
  } else {
    kernel_ = kernels().columns_far;
    arrange_far();
  }
}

void ColumnPass::arrange_far() {
  far.clear();
  for (size_t x = 0; x < taps->first.size(); ++x)
    for (size_t pair = 0; pair < far_pairs(); ++pair) {
      int32_t two[2];
      for (int32_t i = 0; i < 2; ++i) {
        const int32_t t = int32_t(pair) * 2 + i - taps->first[x] % 2;
        two[i] = t >= 0 && t < taps->size[x] ? taps->weights_of(int32_t(x))[t] : 0;
      }
      far.push_back(split_weights(two));
    }
}

// Arranges the weights in the order of the vectors.
void ColumnPass::arrange(int32_t loads) {
  const size_t outputs = taps->first.size(), share = size_t(8 / loads);
  blocks.resize(outputs / 32);
  weights.resize(blocks.size() * size_t(pairs));
  std::memset(blocks.data(), 0x80, blocks.size() * sizeof(Block));  // indices that select zero
  for (size_t begin = 0; begin < outputs; begin += share) {
    const size_t eight = begin % 32 / 8, vector = eight % 2, load = begin % 8 / share;
    const int32_t base = std::min(taps->first[begin], taps->first[begin + share - 1]);
    blocks[begin / 32].base[load][eight] = base;
    for (size_t x = begin; x < begin + share; ++x) {
      const size_t i = eight / 2 * 8 + x % 8;
      blocks[x / 32].shuffle[load][vector][i] = uint16_t((taps->first[x] - base) * 257 + 256);
      const int32_t* of_output = taps->weights_of(int32_t(x));
      Pair* to = weights.data() + x / 32 * size_t(pairs);
      for (int32_t pair = 0; pair < pairs; ++pair, ++to, of_output += 2) {
        const WeightPair split = split_weights(of_output);
        to->high[vector][i] = int16_t(split.high);
        to->low[vector][i % 2][i / 2] = split.low;
      }
    }
  }
}

}  // namespace headrace
