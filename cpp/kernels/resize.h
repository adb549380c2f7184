// The two passes of a resize over planar lines: sums of products, rounded and clipped to a byte.
//
// 22-bit weights are multiplied exactly by 16-bit instructions: a weight is high * 65536 + low, and
// the products with the low and the high parts are summed separately, L in 32 bits and H in 16. The
// sum is H * 65536 + L, and (H * 65536 + L + half) >> 22 is (H + (L >> 16) + 32) >> 6, for which 16
// bits suffice: everything is exact modulo a power of two, and Pillow's sum fits into 32 bits. A
// weight is little more than 1 at most, so its high part fits into a byte, and the sum of two
// products of bytes into 16 bits, because |high| + |high'| is below 128.
#pragma once

#include <algorithm>

#include "../resize_weights.h"
#include "vector.h"

namespace headrace {
namespace {

// 16 outputs: H, and L of the even and of the odd ones.
struct OutputSums {
  I16 high;
  I32 low[2];

  // Adds the products of two sources of each output, side by side in `bytes`.
  HEADRACE_INLINE void add(U8 bytes, I8 highs, I16 even_lows, I16 odd_lows) {
    high = high + multiply_add(bytes, highs);
    low[0] = low[0] + multiply_add(widen_pairs<0>(bytes), even_lows);
    low[1] = low[1] + multiply_add(widen_pairs<1>(bytes), odd_lows);
  }

  // In 16 bits, still to be clipped: multiply_round is (x * 512 + 2^14) >> 15.
  HEADRACE_INLINE I16 round() const {
    return multiply_round(high + zip_high_halves(low[0], low[1]), splat(int16_t(512)));
  }
};

HEADRACE_INLINE void store_outputs(uint8_t* out, const OutputSums sums[2]) {
  store(out, pack_unsigned(sums[0].round(), sums[1].round()));
}

// The halves of vector v are outputs 8 v to 8 v + 7 and the same plus 16, so that packing to bytes
// leaves them in order. A load holds the sources of all pairs.
template <int Loads, int Pairs>
void columns_near(ColumnPass& pass, const Planar& in, const Planar& out) {
  const size_t in_line = in.line(), out_line = out.line();
  for (size_t b = 0; b < pass.blocks.size(); ++b) {
    const ColumnPass::Block& block = pass.blocks[b];
    const ColumnPass::Pair* weights = pass.weights.data() + b * Pairs;
    ptrdiff_t base[Loads][4];
    U8 places[Pairs][Loads][2];
    for (int i = 0; i < Loads; ++i) {
      for (int eight = 0; eight < 4; ++eight) base[i][eight] = block.base[i][eight];
      for (int j = 0; j < Pairs * 2; ++j)
        places[j / 2][i][j % 2] =
            load<uint8_t>(block.shuffle[i][j % 2]) + splat(uint8_t(j / 2 * 2));
    }
    const uint8_t* from = in.data;
    uint8_t* to = out.data + b * kLineUnit;
    for (int32_t lines = in.height * in.channels; lines > 0; --lines) {
      OutputSums sums[2] = {};
      for (int pair = 0; pair < Pairs; ++pair)
        for (int v = 0; v < 2; ++v) {
          U8 bytes{};
          for (int i = 0; i < Loads; ++i)
            bytes = bytes | shuffle(load_halves<uint8_t>(from + base[i][v], from + base[i][v + 2]),
                                    places[pair][i][v]);
          const ColumnPass::Pair& by = weights[pair];
          sums[v].add(bytes, load<int8_t>(by.high[v]), load<int16_t>(by.low[v][0]),
                      load<int16_t>(by.low[v][1]));
        }
      store_outputs(to, sums);
      from += in_line;
      to += out_line;
    }
  }
}

// For outputs with many sources, or sources far apart: 16 lines at a time, transposed so that the
// same two columns of all lines lie side by side.
void columns_far(ColumnPass& pass, const Planar& in, const Planar& out) {
  const size_t in_line = in.line(), out_line = out.line(), lines = size_t(in.height * in.channels);
  const size_t pairs = pass.far_pairs(), length = pad_line(in.width);
  const int32_t* const first = pass.taps->first.data();
  const U8 side_by_side = make_bytes([](int i) { return i % 2 * 8 + i / 2; });
  uint8_t* const turned = pass.turned.reserve((length + pairs * 2) * 16);
  for (size_t line = 0; line < lines; line += 16) {
    const uint8_t* from[16];
    uint8_t* to[16];
    for (size_t i = 0; i < 16; ++i) {  // if there are fewer, the last one is repeated
      from[i] = in.data + std::min(line + i, lines - 1) * in_line;
      to[i] = out.data + std::min(line + i, lines - 1) * out_line;
    }
    I16 rows[8];
    for (size_t at = 0; at < length; at += 16) {
      if (at % 64 == 0)  // too many streams for the hardware prefetcher
        for (const uint8_t* row : from) __builtin_prefetch(row + at + 256);
      for (int i = 0; i < 8; ++i) rows[i] = load_halves<int16_t>(from[i] + at, from[i + 8] + at);
      transpose(rows);
      for (size_t i = 0; i < 8; ++i) store(turned + at * 16 + i * 32, rows[i]);
    }
    const WeightPair* by = pass.far.data();
    for (size_t x = 0; x < out_line; x += 16) {
      for (size_t i = 0; i < 16; i += 2) {
        I16 levels[2];
        for (size_t j = 0; j < 2; ++j) {
          const uint8_t* at = turned + size_t(first[x + i + j]) / 2 * 32;
          OutputSums sums = {};
#pragma GCC unroll 4
          for (size_t pair = 0; pair < pairs; ++pair, ++by, at += 32) {
            const I16 lows = as<int16_t>(splat(by->low));
            sums.add(load<uint8_t>(at), as<int8_t>(splat(by->high)), lows, lows);
          }
          levels[j] = sums.round();
        }
        rows[i / 2] = as<int16_t>(shuffle(pack_unsigned(levels[0], levels[1]), side_by_side));
      }
      transpose(rows);
      for (int i = 0; i < 8; ++i) store_halves(to[i] + x, to[i + 8] + x, rows[i]);
    }
  }
}

// If Pairs is not 0, it is the number of pairs, and rows and weights stay in registers.
template <int Pairs>
HEADRACE_INLINE void resample_range(const RowPair* support, int32_t pairs, uint8_t* out, size_t at,
                                    size_t end) {
  RowPair kept[Pairs + 1];
  std::copy_n(support, Pairs, kept);
  for (; at < end; at += kLineUnit) {
    OutputSums sums[2] = {};
    for (int32_t i = 0; i < (Pairs ? Pairs : pairs); ++i) {
      const RowPair& from = Pairs ? kept[i] : support[i];
      const I16 lows = as<int16_t>(splat(from.by.low));
      const I8 highs = as<int8_t>(splat(from.by.high));
      const U8 a = load<uint8_t>(from.rows[0] + at), b = load<uint8_t>(from.rows[1] + at);
      sums[0].add(zip_low(a, b), highs, lows, lows);
      sums[1].add(zip_high(a, b), highs, lows, lows);
    }
    store_outputs(out + at, sums);
  }
}

template <int Pairs>
void resample_rows(const RowPair* support, int32_t pairs, uint8_t* out, size_t bytes) {
  resample_range<Pairs>(support, pairs, out, 0, bytes / kLineUnit * kLineUnit);
  // Nothing behind the end is touched: the last vector overlaps the one before.
  if (bytes % kLineUnit != 0) resample_range<Pairs>(support, pairs, out, bytes - kLineUnit, bytes);
}

}  // namespace
}  // namespace headrace
