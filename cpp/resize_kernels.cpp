#include "resize_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "simd.h"

namespace headrace {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

uint8_t clip(int32_t sum) { return uint8_t(std::clamp(sum >> kWeightBits, 0, 255)); }

void columns_portable(ColumnPass& pass, const Planar& in, const Planar& out) {
  const Taps& taps = *pass.taps;
  for (size_t line = 0; line < size_t(in.height * in.channels); ++line)
    for (int32_t x = 0; x < out.width; ++x) {
      const uint8_t* from = in.data + line * in.line() + taps.first[x];
      int32_t sum = kHalf;
      for (int32_t t = 0; t < taps.size[x]; ++t) sum += taps.weights_of(x)[t] * from[t];
      out.data[line * out.line() + size_t(x)] = clip(sum);
    }
}

void rows_portable(const RowPair* window, int32_t pairs, uint8_t* out, size_t at, size_t end) {
  for (; at < end; at += kLineUnit) {
    int32_t sums[kLineUnit];
    std::fill_n(sums, kLineUnit, kHalf);
    for (int32_t t = 0; t < pairs * 2; ++t)
      for (size_t i = 0; i < kLineUnit; ++i)
        sums[i] += window[t / 2].weights[t % 2] * window[t / 2].rows[t % 2][at + i];
    for (size_t i = 0; i < kLineUnit; ++i) out[at + i] = clip(sums[i]);
  }
}

// How 22-bit weights are multiplied exactly by 16-bit instructions: a weight is high * 65536 + low,
// and the products with the lows and with the highs are summed apart, L in 32 bits and H in 16. The
// sum is H * 65536 + L, and (H * 65536 + L + half) >> 22 is (H + (L >> 16) + 32) >> 6, for which 16
// bits are enough: all is exact modulo a power of two, and Pillow's sum fits into 32 bits.
// A weight is at most a little above 1, so its high fits into a byte, and `pmaddubsw`, which
// multiplies bytes, does not saturate: |high| + |high'| is below 128.
uint32_t high_of(int32_t weight) { return uint32_t(weight + 0x8000) >> 16 & 0xFF; }

#if HEADRACE_AVX2

// The two bytes of every other output, `odd` or even, in 16 bits each.
AVX2_INLINE __m256i widen(__m256i bytes, int odd) {
  const __m256i places = _mm256_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1,
                                          0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1);
  return _mm256_shuffle_epi8(bytes, _mm256_add_epi16(places, _mm256_set1_epi16(int16_t(odd * 2))));
}

// 16 outputs: H, and L of the even and of the odd ones.
struct Sums {
  __m256i high, low[2];

  // Adds the products of two sources of each output, side by side in `bytes`.
  AVX2_INLINE void add(__m256i bytes, __m256i highs, __m256i even_lows, __m256i odd_lows) {
    high = _mm256_add_epi16(high, _mm256_maddubs_epi16(bytes, highs));
    low[0] = _mm256_add_epi32(low[0], _mm256_madd_epi16(widen(bytes, 0), even_lows));
    low[1] = _mm256_add_epi32(low[1], _mm256_madd_epi16(widen(bytes, 1), odd_lows));
  }

  // In 16 bits, still to be clipped. The last instruction is (x * 512 + 2^14) >> 15.
  AVX2_INLINE __m256i round() const {
    const __m256i carried = _mm256_blend_epi16(_mm256_srli_epi32(low[0], 16), low[1], 0xAA);
    return _mm256_mulhrs_epi16(_mm256_add_epi16(high, carried), _mm256_set1_epi16(512));
  }
};

AVX2_INLINE void store(uint8_t* out, const Sums sums[2]) {
  store_bytes(out, _mm256_packus_epi16(sums[0].round(), sums[1].round()));
}

// The lanes of register r are eights r and r + 2: then packing to bytes leaves all in order. A load
// has the sources of all pairs.
template <int Loads, int Pairs>
HEADRACE_TARGET_AVX2 void columns_near(ColumnPass& pass, const Planar& in, const Planar& out) {
  const size_t in_line = in.line(), out_line = out.line();
  for (size_t b = 0; b < pass.blocks.size(); ++b) {
    const ColumnPass::Block& block = pass.blocks[b];
    const ColumnPass::Pair* weights = pass.weights.data() + b * Pairs;
    ptrdiff_t base[Loads][4];
    __m256i shuffle[Pairs][Loads][2];
    for (int i = 0; i < Loads; ++i) {
      for (int eight = 0; eight < 4; ++eight) base[i][eight] = block.base[i][eight];
      for (int j = 0; j < Pairs * 2; ++j)
        shuffle[j / 2][i][j % 2] = _mm256_add_epi8(load_bytes(block.shuffle[i][j % 2]),
                                                   _mm256_set1_epi8(int8_t(j / 2 * 2)));
    }
    const uint8_t* from = in.data;
    uint8_t* to = out.data + b * kLineUnit;
    for (int32_t lines = in.height * in.channels; lines > 0; --lines) {
      Sums sums[2] = {};
      for (int pair = 0; pair < Pairs; ++pair)
        for (int r = 0; r < 2; ++r) {
          __m256i bytes = _mm256_setzero_si256();
          for (int i = 0; i < Loads; ++i)
            bytes = _mm256_or_si256(
                bytes, _mm256_shuffle_epi8(load_lanes(from + base[i][r], from + base[i][r + 2]),
                                           shuffle[pair][i][r]));
          const ColumnPass::Pair& by = weights[pair];
          sums[r].add(bytes, load_bytes(by.high[r]), load_bytes(by.low[r][0]),
                      load_bytes(by.low[r][1]));
        }
      store(to, sums);
      from += in_line;
      to += out_line;
    }
  }
}

// For outputs of many sources, or far apart: 16 lines at once, which are turned for that, so that
// the same two columns of all of them lie side by side.
HEADRACE_TARGET_AVX2 void columns_far(ColumnPass& pass, const Planar& in, const Planar& out) {
  const size_t in_line = in.line(), out_line = out.line(), lines = size_t(in.height * in.channels);
  const size_t pairs = pass.far_pairs();
  const int32_t* const first = pass.taps->first.data();
  uint8_t* const turned = pass.turned.reserve((in_line + pairs * 2) * 16);
  for (size_t line = 0; line < lines; line += 16) {
    const uint8_t* from[16];
    uint8_t* to[16];
    for (size_t i = 0; i < 16; ++i) {  // where there are fewer, the last is done again
      from[i] = in.data + std::min(line + i, lines - 1) * in_line;
      to[i] = out.data + std::min(line + i, lines - 1) * out_line;
    }
    __m256i rows[8];
    for (size_t at = 0; at < in_line; at += 16) {
      if (at % 64 == 0)  // too many streams for the CPU to foresee
        for (const uint8_t* row : from) _mm_prefetch(row + at + 256, _MM_HINT_T0);
      for (int i = 0; i < 8; ++i) rows[i] = load_lanes(from[i] + at, from[i + 8] + at);
      transpose_lanes(rows);
      for (size_t i = 0; i < 8; ++i) store_bytes(turned + at * 16 + i * 32, rows[i]);
    }
    const WeightPair* by = pass.far.data();
    for (size_t x = 0; x < out_line; x += 16) {
      for (size_t i = 0; i < 16; i += 2) {
        __m256i levels[2];
        for (size_t j = 0; j < 2; ++j) {
          const uint8_t* at = turned + size_t(first[x + i + j]) / 2 * 32;
          Sums sums = {};
#pragma GCC unroll 4
          for (size_t pair = 0; pair < pairs; ++pair, ++by, at += 32) {
            const __m256i lows = _mm256_set1_epi32(by->low);
            sums.add(load_bytes(at), _mm256_set1_epi32(by->high), lows, lows);
          }
          levels[j] = sums.round();
        }
        const __m256i bytes = _mm256_packus_epi16(levels[0], levels[1]);
        rows[i / 2] = _mm256_unpacklo_epi8(bytes, _mm256_srli_si256(bytes, 8));
      }
      transpose_lanes(rows);
      for (int i = 0; i < 8; ++i) store_lanes(to[i] + x, to[i + 8] + x, rows[i]);
    }
  }
}

// With a count of Pairs that the compiler knows, rows and weights stay in registers.
template <int Pairs>
HEADRACE_TARGET_AVX2 void rows_avx2(const RowPair* window, int32_t pairs, uint8_t* out, size_t at,
                                    size_t end) {
  RowPair kept[Pairs + 1];
  std::copy_n(window, Pairs, kept);
  for (; at < end; at += kLineUnit) {
    Sums sums[2] = {};
    for (int32_t i = 0; i < (Pairs ? Pairs : pairs); ++i) {
      const RowPair& from = Pairs ? kept[i] : window[i];
      const __m256i lows = _mm256_set1_epi32(from.by.low);
      const __m256i highs = _mm256_set1_epi32(from.by.high);
      const __m256i a = load_bytes(from.rows[0] + at), b = load_bytes(from.rows[1] + at);
      sums[0].add(_mm256_unpacklo_epi8(a, b), highs, lows, lows);
      sums[1].add(_mm256_unpackhi_epi8(a, b), highs, lows, lows);
    }
    store(out + at, sums);
  }
}

// How many loads of 16 bytes it takes to have the first `sources` of any eight outputs.
int32_t count_loads(const std::vector<int32_t>& first, int32_t sources) {
  size_t share = 8;  // outputs a load
  for (size_t x = 0; x < first.size(); x += share)
    while (std::abs(first[x + share - 1] - first[x]) > 16 - sources) share /= 2;
  return int32_t(8 / share);
}

#endif

}  // namespace

WeightPair split_weights(const int32_t* weights) {
  return {int32_t(uint16_t(weights[0]) | uint32_t(weights[1]) << 16),
          int32_t((high_of(weights[0]) | high_of(weights[1]) << 8) * 0x10001)};
}

void ColumnPass::prepare(const Taps& taps_to_use) {
  taps = &taps_to_use;
  kernel_ = columns_portable;
#if HEADRACE_AVX2
  if (!use_avx2()) return;
  constexpr decltype(kernel_) near[2][3] = {
      {columns_near<1, 1>, columns_near<1, 2>, columns_near<1, 3>},
      {columns_near<2, 1>, columns_near<2, 2>, columns_near<2, 3>}};
  pairs = (taps->most + 1) / 2;
  const int32_t loads = pairs > 3 ? 0 : count_loads(taps->first, pairs * 2);
  if (loads == 1 || loads == 2) {
    kernel_ = near[loads - 1][pairs - 1];
    arrange(loads);
  } else {
    kernel_ = columns_far;
    arrange_far();
  }
#endif
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

// Puts the weights into the order of the registers.
void ColumnPass::arrange(int32_t loads) {
  const size_t outputs = taps->first.size(), share = size_t(8 / loads);
  blocks.resize(outputs / 32);
  weights.resize(blocks.size() * size_t(pairs));
  std::memset(blocks.data(), 0x80, blocks.size() * sizeof(Block));  // a shuffle that gives zero
  for (size_t begin = 0; begin < outputs; begin += share) {
    const size_t eight = begin % 32 / 8, r = eight % 2, load = begin % 8 / share;
    const int32_t base = std::min(taps->first[begin], taps->first[begin + share - 1]);
    blocks[begin / 32].base[load][eight] = base;
    for (size_t x = begin; x < begin + share; ++x) {
      const size_t i = eight / 2 * 8 + x % 8;
      blocks[x / 32].shuffle[load][r][i] = uint16_t((taps->first[x] - base) * 257 + 256);
      const int32_t* of_output = taps->weights_of(int32_t(x));
      Pair* to = weights.data() + x / 32 * size_t(pairs);
      for (int32_t pair = 0; pair < pairs; ++pair, ++to, of_output += 2) {
        const WeightPair split = split_weights(of_output);
        to->high[r][i] = int16_t(split.high);
        to->low[r][i % 2][i / 2] = split.low;
      }
    }
  }
}

void resample_rows(const RowPair* window, int32_t pairs, uint8_t* out, size_t bytes) {
  auto* run = rows_portable;
#if HEADRACE_AVX2
  constexpr decltype(run) kernels[] = {rows_avx2<0>, rows_avx2<1>, rows_avx2<2>, rows_avx2<3>};
  if (use_avx2()) run = kernels[pairs < 4 ? pairs : 0];
#endif
  run(window, pairs, out, 0, bytes / kLineUnit * kLineUnit);
  // Nothing behind the end is touched: the last bytes come with some that are done already.
  if (bytes % kLineUnit != 0) run(window, pairs, out, bytes - kLineUnit, bytes);
}

}  // namespace headrace
