#include "resize_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "simd.h"

namespace penstock {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

uint8_t clip(int32_t sum) { return uint8_t(std::clamp(sum >> kWeightBits, 0, 255)); }

void columns_portable(const ColumnPass& pass, const Planar& in, const Planar& out) {
  const Taps& taps = *pass.taps;
  for (size_t line = 0; line < size_t(in.height * in.channels); ++line)
    for (int32_t x = 0; x < out.width; ++x) {
      const uint8_t* from = in.data + line * in.line() + taps.first[x];
      int32_t sum = kHalf;
      for (int32_t t = 0; t < taps.size[x]; ++t) sum += taps.weights_of(x)[t] * from[t];
      out.data[line * out.line() + size_t(x)] = clip(sum);
    }
}

// Where the next kLineUnit bytes of a row begin: the last are taken up to its end, some of them
// again.
size_t next_unit(size_t at, size_t bytes) {
  at += kLineUnit;
  return at < bytes ? std::min(at, bytes - kLineUnit) : bytes;
}

void rows_portable(const RowPair* window, int32_t pairs, uint8_t* out, size_t bytes) {
  for (size_t at = 0; at < bytes; at = next_unit(at, bytes)) {
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
int16_t high_of(int32_t weight) { return int16_t((weight + 0x8000) >> 16); }
int32_t low_pair(const int32_t* weights) {
  return int32_t(uint16_t(weights[0]) | uint32_t(weights[1]) << 16);
}
int16_t high_pair(const int32_t* weights) {
  return int16_t((high_of(weights[0]) & 0xFF) | high_of(weights[1]) * 256);
}

#if PENSTOCK_AVX2

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

// The lanes of register r are eights r and r + 2: then packing to bytes leaves all in order. With a
// count of Pairs that the compiler knows, a load has the sources of all pairs; else each has its
// own.
template <int Loads, int Pairs>
PENSTOCK_TARGET_AVX2 void columns_avx2(const ColumnPass& pass, const Planar& in,
                                       const Planar& out) {
  constexpr int kept = Pairs ? Pairs : 1;
  const int pairs = Pairs ? Pairs : pass.pairs;
  const size_t in_line = in.line(), out_line = out.line();
  for (size_t b = 0; b < pass.blocks.size(); ++b) {
    const ColumnPass::Block& block = pass.blocks[b];
    const ColumnPass::Pair* weights = pass.weights.data() + b * size_t(pairs);
    ptrdiff_t base[Loads][4];
    __m256i shuffle[kept][Loads][2];
    for (int i = 0; i < Loads; ++i) {
      for (int eight = 0; eight < 4; ++eight) base[i][eight] = block.base[i][eight];
      for (int j = 0; j < kept * 2; ++j)
        shuffle[j / 2][i][j % 2] = _mm256_add_epi8(load_bytes(block.shuffle[i][j % 2]),
                                                   _mm256_set1_epi8(int8_t(j / 2 * 2)));
    }
    const uint8_t* from = in.data;
    uint8_t* to = out.data + b * kLineUnit;
    for (int32_t lines = in.height * in.channels; lines > 0; --lines) {
      Sums sums[2] = {};
      for (int pair = 0; pair < pairs; ++pair)
        for (int r = 0; r < 2; ++r) {
          const uint8_t* at = from + (Pairs ? 0 : pair * 2);
          __m256i bytes = _mm256_setzero_si256();
          for (int i = 0; i < Loads; ++i)
            bytes = _mm256_or_si256(
                bytes, _mm256_shuffle_epi8(load_lanes(at + base[i][r], at + base[i][r + 2]),
                                           shuffle[Pairs ? pair : 0][i][r]));
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

using Kernel = decltype(&columns_portable);
template <int Loads>
constexpr Kernel by_pairs[] = {columns_avx2<Loads, 0>, columns_avx2<Loads, 1>,
                               columns_avx2<Loads, 2>, columns_avx2<Loads, 3>};

// For sources that lie far apart: 16 taps of an output at a time. Line by line: there is much to
// read, which comes from far away. Steps may be known to the compiler.
template <int Steps>
PENSTOCK_TARGET_AVX2 void columns_wide(const ColumnPass& pass, const Planar& in,
                                       const Planar& out) {
  const size_t steps = Steps ? Steps : pass.steps();
  const int32_t* const first = pass.taps->first.data();
  for (size_t line = 0; line < size_t(in.height * in.channels); ++line) {
    const uint8_t* const from = in.data + line * in.line();
    uint8_t* const to = out.data + line * out.line();
    const ColumnPass::Sixteen* by = pass.wide.data();
    for (size_t x = 0; x < size_t(out.width); x += 4) {
      __m256i sums[4];
      for (size_t i = 0; i < 4; ++i) {
        __m256i low = _mm256_setzero_si256(), high = low;
        for (size_t t = 0; t < steps; ++t, ++by) {
          const __m256i bytes = load_wide(from + first[x + i] + t * 16);
          low = _mm256_add_epi32(low, _mm256_madd_epi16(bytes, load_bytes(by->low)));
          high = _mm256_add_epi32(high, _mm256_madd_epi16(bytes, load_bytes(by->high)));
        }
        sums[i] = _mm256_add_epi32(low, _mm256_slli_epi32(high, 16));
      }
      const __m256i halves = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]),
                                               _mm256_hadd_epi32(sums[2], sums[3]));
      const __m128i sum =
          _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
      __m128i levels = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)), kWeightBits);
      levels = _mm_packs_epi32(levels, levels);
      const int32_t packed = _mm_cvtsi128_si32(_mm_packus_epi16(levels, levels));
      std::memcpy(to + x, &packed, 4);
    }
  }
}

constexpr Kernel by_steps[] = {columns_wide<0>, columns_wide<1>, columns_wide<2>, columns_wide<3>};

// With a count of Pairs that the compiler knows, rows and weights stay in registers.
template <int Pairs>
PENSTOCK_TARGET_AVX2 void rows_avx2(const RowPair* window, int32_t pairs, uint8_t* out,
                                    size_t bytes) {
  RowPair kept[Pairs + 1];
  std::copy_n(window, Pairs, kept);
  for (size_t at = 0; at < bytes; at = next_unit(at, bytes)) {
    Sums sums[2] = {};
    for (int32_t i = 0; i < (Pairs ? Pairs : pairs); ++i) {
      const RowPair& from = Pairs ? kept[i] : window[i];
      const __m256i lows = _mm256_set1_epi32(low_pair(from.weights));
      const __m256i highs = _mm256_set1_epi16(high_pair(from.weights));
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

void ColumnPass::prepare(const Taps& taps_to_use) {
  taps = &taps_to_use;
  kernel_ = columns_portable;
#if PENSTOCK_AVX2
  if (!use_avx2()) return;
  pairs = (taps->most + 1) / 2;
  const int32_t known = pairs < 4 ? pairs : 0;
  const int32_t loads = count_loads(taps->first, known ? known * 2 : 2);
  if (loads > 2) {
    kernel_ = by_steps[steps() < 4 ? steps() : 0];
    arrange_wide();
  } else {
    kernel_ = loads == 1 ? by_pairs<1>[known] : by_pairs<2>[known];
    arrange(loads);
  }
#endif
}

void ColumnPass::arrange_wide() {
  wide.assign(taps->first.size() * steps(), {});
  for (int32_t x = 0; x < taps->outputs; ++x)
    for (int32_t t = 0; t < taps->size[x]; ++t) {
      const int32_t weight = taps->weights_of(x)[t];
      Sixteen& to = wide[size_t(x) * steps() + size_t(t) / 16];
      to.low[t % 16] = int16_t(weight);
      to.high[t % 16] = high_of(weight);
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
        to->high[r][i] = high_pair(of_output);
        to->low[r][i % 2][i / 2] = low_pair(of_output);
      }
    }
  }
}

void resample_rows(const RowPair* window, int32_t pairs, uint8_t* out, size_t bytes) {
#if PENSTOCK_AVX2
  constexpr decltype(&resample_rows) kernels[] = {rows_avx2<0>, rows_avx2<1>, rows_avx2<2>,
                                                  rows_avx2<3>};
  if (use_avx2()) return kernels[pairs < 4 ? pairs : 0](window, pairs, out, bytes);
#endif
  rows_portable(window, pairs, out, bytes);
}

}  // namespace penstock
