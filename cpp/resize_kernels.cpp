#include "resize_kernels.h"

#include <algorithm>
#include <cstring>

#include "simd.h"

#if PENSTOCK_AVX2
#include <immintrin.h>
#endif

namespace penstock {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);
constexpr size_t kBlock = 32;  // bytes of a row that the vertical pass sums up at once

uint8_t clip(int32_t sum) { return uint8_t(std::clamp(sum >> kWeightBits, 0, 255)); }

void columns_portable(const uint8_t* const* in, uint8_t* const* out, const Taps& taps,
                      int32_t width) {
  for (int32_t row = 0; row < kRowGroup; ++row) {
    uint8_t* to = out[row];
    for (int32_t x = 0; x < width; ++x, to += 3) {
      const uint8_t* from = in[row] + size_t(taps.first[x]) * 3;
      const WeightPair* weights = taps.weights_of(x);
      int32_t red = kHalf, green = kHalf, blue = kHalf;
      for (int32_t t = 0; t < taps.size[x]; ++t, from += 3) {
        const int32_t weight = weights[t / 2].weight(t % 2);
        red += weight * from[0];
        green += weight * from[1];
        blue += weight * from[2];
      }
      to[0] = clip(red);
      to[1] = clip(green);
      to[2] = clip(blue);
    }
  }
}

void block_portable(const uint8_t* const* window, size_t at, uint8_t* out,
                    const WeightPair* weights, int32_t size) {
  int32_t sums[kBlock];
  std::fill_n(sums, kBlock, kHalf);
  for (int32_t t = 0; t < size; ++t) {
    const uint8_t* from = window[t] + at;
    const int32_t weight = weights[t / 2].weight(t % 2);
    for (size_t i = 0; i < kBlock; ++i) sums[i] += weight * from[i];
  }
  for (size_t i = 0; i < kBlock; ++i) out[i] = clip(sums[i]);
}

void row_portable(const uint8_t* const* window, uint8_t* out, size_t bytes,
                  const WeightPair* weights, int32_t size) {
  uint8_t block[kBlock];
  for (size_t at = 0; at < bytes; at += kBlock) {
    block_portable(window, at, block, weights, size);
    std::memcpy(out + at, block, std::min(kBlock, bytes - at));
  }
}

#if PENSTOCK_AVX2

// How 22-bit weights are multiplied exactly by 16-bit instructions: the products with the lows and
// with the highs are summed apart, L in 32 bits and H in 16 or 32. The sum is H * 65536 + L, and
// (H * 65536 + L + half) >> 22 is (H + (L >> 16) + 32) >> 6, for which 16 bits are enough: all is
// exact modulo a power of two, and Pillow's sum fits into 32 bits.
constexpr int kHighBits = kWeightBits - 16;
constexpr int16_t kHighHalf = 1 << (kHighBits - 1);

PENSTOCK_TARGET_AVX2 inline __m256i broadcast_pair(const int16_t* pair) {
  int32_t both;
  std::memcpy(&both, pair, 4);
  return _mm256_set1_epi32(both);
}

PENSTOCK_TARGET_AVX2 inline __m256i load_lanes(const uint8_t* upper, const uint8_t* lower) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(upper))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(lower)), 1);
}

PENSTOCK_TARGET_AVX2 inline void store_lanes(__m256i lanes, uint8_t* upper, uint8_t* lower) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(upper), _mm256_castsi256_si128(lanes));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(lower), _mm256_extracti128_si256(lanes, 1));
}

// Sums of one output pixel for two rows, a row a lane: red, green, blue and nothing, as int32.
struct PixelSums {
  __m256i low, high;
};

PENSTOCK_TARGET_AVX2 inline void add_pair(PixelSums& sums, __m256i pixels, __m256i low,
                                          __m256i high) {
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(pixels, low));
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(pixels, high));
}

// One output pixel of four rows. Source pixels come in pairs: a load has room for two of them.
template <int Pairs>
PENSTOCK_TARGET_AVX2 inline void sum_pixel(const uint8_t* const in[kRowGroup], size_t offset,
                                           const WeightPair* weights, int pairs, PixelSums& top,
                                           PixelSums& bottom) {
  const __m256i first = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,
                                         0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  const __m256i second =
      _mm256_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1,  //
                       6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i zero = _mm256_setzero_si256();
  top = bottom = {zero, zero};
  if (Pairs) pairs = Pairs;
  for (int pair = 0; pair < pairs; pair += 2, offset += 12) {
    const __m256i from_top = load_lanes(in[0] + offset, in[1] + offset);
    const __m256i from_bottom = load_lanes(in[2] + offset, in[3] + offset);
    const __m256i low0 = broadcast_pair(weights[pair].low);
    const __m256i high0 = broadcast_pair(weights[pair].high);
    add_pair(top, _mm256_shuffle_epi8(from_top, first), low0, high0);
    add_pair(bottom, _mm256_shuffle_epi8(from_bottom, first), low0, high0);
    if (pair + 1 == pairs) break;
    const __m256i low1 = broadcast_pair(weights[pair + 1].low);
    const __m256i high1 = broadcast_pair(weights[pair + 1].high);
    add_pair(top, _mm256_shuffle_epi8(from_top, second), low1, high1);
    add_pair(bottom, _mm256_shuffle_epi8(from_bottom, second), low1, high1);
  }
}

// Two neighbouring pixels, their channels alternating, as int16 that are still to be clipped.
PENSTOCK_TARGET_AVX2 inline __m256i round_pixels(const PixelSums& even, const PixelSums& odd) {
  const __m256i low = _mm256_blend_epi16(_mm256_srli_epi32(even.low, 16), odd.low, 0xAA);
  const __m256i high = _mm256_blend_epi16(even.high, _mm256_slli_epi32(odd.high, 16), 0xAA);
  const __m256i sum = _mm256_add_epi16(_mm256_add_epi16(low, high), _mm256_set1_epi16(kHighHalf));
  return _mm256_srai_epi16(sum, kHighBits);
}

// Four pixels of two rows to 12 bytes in each lane.
PENSTOCK_TARGET_AVX2 inline __m256i pack_pixels(__m256i left, __m256i right) {
  const __m256i dense = _mm256_setr_epi8(0, 2, 4, 1, 3, 5, 8, 10, 12, 9, 11, 13, -1, -1, -1, -1,  //
                                         0, 2, 4, 1, 3, 5, 8, 10, 12, 9, 11, 13, -1, -1, -1, -1);
  return _mm256_shuffle_epi8(_mm256_packus_epi16(left, right), dense);
}

template <int Pairs>
PENSTOCK_TARGET_AVX2 void columns_avx2(const uint8_t* const* in, uint8_t* const* out,
                                       const Taps& taps, int32_t width) {
  // In local variables, which a store of bytes cannot change as far as the compiler knows.
  const uint8_t* const from[kRowGroup] = {in[0], in[1], in[2], in[3]};
  uint8_t* const to[kRowGroup] = {out[0], out[1], out[2], out[3]};
  const int32_t *first = taps.first.data(), *size = taps.size.data();
  const WeightPair* weights = taps.weights_of(0);
  const int stride = Pairs ? Pairs : taps.pairs;
  for (int32_t x = 0; x < width; x += 4) {
    __m256i top[2], bottom[2];
    for (int32_t half = 0; half < 2; ++half, weights += stride * 2) {
      const int32_t even = x + half * 2, odd = even + 1;
      PixelSums even_top, even_bottom, odd_top, odd_bottom;
      sum_pixel<Pairs>(from, size_t(first[even]) * 3, weights, (size[even] + 1) / 2, even_top,
                       even_bottom);
      sum_pixel<Pairs>(from, size_t(first[odd]) * 3, weights + stride, (size[odd] + 1) / 2, odd_top,
                       odd_bottom);
      top[half] = round_pixels(even_top, odd_top);
      bottom[half] = round_pixels(even_bottom, odd_bottom);
    }
    const __m256i upper = pack_pixels(top[0], top[1]), lower = pack_pixels(bottom[0], bottom[1]);
    const size_t at = size_t(x) * 3, left = size_t(width) * 3 - at;
    if (left >= 16) {
      store_lanes(upper, to[0] + at, to[1] + at);
      store_lanes(lower, to[2] + at, to[3] + at);
    } else {  // a store of 16 bytes would reach past the end of the row
      uint8_t rest[kRowGroup][16];
      store_lanes(upper, rest[0], rest[1]);
      store_lanes(lower, rest[2], rest[3]);
      for (int32_t i = 0; i < kRowGroup; ++i)
        std::memcpy(to[i] + at, rest[i], std::min<size_t>(left, 12));
    }
  }
}

// The highs of two taps as bytes: a weight is at most a little above 1, so its high fits.
PENSTOCK_TARGET_AVX2 inline __m256i broadcast_bytes(const int16_t* pair) {
  return _mm256_set1_epi16(int16_t((pair[0] & 0xFF) | pair[1] * 256));
}

// The highs are multiplied as bytes, which `pmaddubsw` does for 16 outputs at once. It does not
// saturate: |high| + |high'| is below 128.
template <int Pairs>
PENSTOCK_TARGET_AVX2 inline __m256i block_avx2(const uint8_t* const* window, size_t at,
                                               const WeightPair* weights, int pairs) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i low[4] = {zero, zero, zero, zero};
  __m256i high[2] = {_mm256_set1_epi16(kHighHalf), _mm256_set1_epi16(kHighHalf)};
  if (Pairs) pairs = Pairs;
  for (int pair = 0; pair < pairs; ++pair) {
    const __m256i lows = broadcast_pair(weights[pair].low);
    const __m256i highs = broadcast_bytes(weights[pair].high);
    const auto* a = reinterpret_cast<const __m256i*>(window[pair * 2] + at);
    const auto* b = reinterpret_cast<const __m256i*>(window[pair * 2 + 1] + at);
    const __m256i row_a = _mm256_loadu_si256(a), row_b = _mm256_loadu_si256(b);
    const __m256i mixed[2] = {_mm256_unpacklo_epi8(row_a, row_b),
                              _mm256_unpackhi_epi8(row_a, row_b)};
    for (int i = 0; i < 2; ++i) {
      const __m256i even = _mm256_unpacklo_epi8(mixed[i], zero);
      const __m256i odd = _mm256_unpackhi_epi8(mixed[i], zero);
      low[i * 2] = _mm256_add_epi32(low[i * 2], _mm256_madd_epi16(even, lows));
      low[i * 2 + 1] = _mm256_add_epi32(low[i * 2 + 1], _mm256_madd_epi16(odd, lows));
      high[i] = _mm256_add_epi16(high[i], _mm256_maddubs_epi16(mixed[i], highs));
    }
  }
  for (int i = 0; i < 2; ++i) {
    const __m256i carried = _mm256_packs_epi32(_mm256_srai_epi32(low[i * 2], 16),
                                               _mm256_srai_epi32(low[i * 2 + 1], 16));
    high[i] = _mm256_srai_epi16(_mm256_add_epi16(high[i], carried), kHighBits);
  }
  return _mm256_packus_epi16(high[0], high[1]);
}

template <int Pairs>
PENSTOCK_TARGET_AVX2 void row_avx2(const uint8_t* const* window, uint8_t* out, size_t bytes,
                                   const WeightPair* weights, int pairs) {
  size_t at = 0;
  for (; at + kBlock <= bytes; at += kBlock)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + at),
                        block_avx2<Pairs>(window, at, weights, pairs));
  if (at == bytes) return;
  uint8_t rest[kBlock];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(rest),
                      block_avx2<Pairs>(window, at, weights, pairs));
  std::memcpy(out + at, rest, bytes - at);
}

#endif

}  // namespace

void resample_columns(const uint8_t* const* in, uint8_t* const* out, const Taps& taps,
                      int32_t width) {
#if PENSTOCK_AVX2
  if (use_avx2()) {
    constexpr decltype(&columns_avx2<0>) by_pairs[] = {columns_avx2<0>, columns_avx2<1>,
                                                       columns_avx2<2>, columns_avx2<3>};
    return by_pairs[taps.pairs < 4 ? taps.pairs : 0](in, out, taps, width);
  }
#endif
  columns_portable(in, out, taps, width);
}

void resample_rows(const uint8_t* const* window, uint8_t* out, size_t bytes, const Taps& taps,
                   int32_t output) {
  const WeightPair* weights = taps.weights_of(output);
#if PENSTOCK_AVX2
  if (use_avx2()) {
    const int pairs = (taps.size[output] + 1) / 2;
    constexpr decltype(&row_avx2<0>) by_pairs[] = {row_avx2<0>, row_avx2<1>, row_avx2<2>,
                                                   row_avx2<3>};
    return by_pairs[pairs < 4 ? pairs : 0](window, out, bytes, weights, pairs);
  }
#endif
  row_portable(window, out, bytes, weights, taps.size[output]);
}

}  // namespace penstock
