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

int32_t weight(int16_t low, int16_t high) { return int32_t(high) * 65536 + low; }

void columns_portable(const uint8_t* const* in, uint8_t* const* out, const Taps& taps,
                      int32_t width) {
  for (int32_t row = 0; row < kRowGroup; ++row) {
    uint8_t* to = out[row];
    for (int32_t x = 0; x < width; ++x, to += 3) {
      const uint8_t* from = in[row] + size_t(taps.first[x]) * 3;
      const int16_t *low = taps.low_of(x), *high = taps.high_of(x);
      int32_t red = kHalf, green = kHalf, blue = kHalf;
      for (int32_t t = 0; t < taps.size[x]; ++t, from += 3) {
        const int32_t k = weight(low[t], high[t]);
        red += k * from[0];
        green += k * from[1];
        blue += k * from[2];
      }
      to[0] = clip(red);
      to[1] = clip(green);
      to[2] = clip(blue);
    }
  }
}

void rows_portable(const uint8_t* const* window, size_t at, uint8_t* out, const Taps& taps,
                   int32_t output) {
  const int16_t *low = taps.low_of(output), *high = taps.high_of(output);
  int32_t sums[kBlock];
  std::fill_n(sums, kBlock, kHalf);
  for (int32_t t = 0; t < taps.size[output]; ++t) {
    const uint8_t* from = window[t] + at;
    const int32_t k = weight(low[t], high[t]);
    for (size_t i = 0; i < kBlock; ++i) sums[i] += k * from[i];
  }
  for (size_t i = 0; i < kBlock; ++i) out[i] = clip(sums[i]);
}

#if PENSTOCK_AVX2

// How 22-bit weights are multiplied exactly by 16-bit instructions: p * k = p * high * 65536 +
// p * low. `pmaddwd` sums two such products at a time, the sums of highs and lows are kept apart
// and added at the end. All of it modulo 2^32, which does no harm: the true sum fits.

PENSTOCK_TARGET_AVX2 inline __m256i broadcast_pair(const int16_t* pair) {
  int32_t both;
  std::memcpy(&both, pair, 4);
  return _mm256_set1_epi32(both);
}

PENSTOCK_TARGET_AVX2 inline __m256i load_two(const uint8_t* a, const uint8_t* b) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), 1);
}

// Sums of one output pixel for two rows, one a lane: four int32 (red, green, blue, nothing).
struct ColumnSums {
  __m256i low, high;
};

PENSTOCK_TARGET_AVX2 inline void add_pair(ColumnSums& sums, __m256i pixels, __m256i low,
                                          __m256i high) {
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(pixels, low));
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(pixels, high));
}

// Pairs: how many pairs of taps an output has; 0 when it is known at run time only.
template <int Pairs>
PENSTOCK_TARGET_AVX2 inline void sum_pixel(const uint8_t* const* in, const Taps& taps, int32_t x,
                                           __m256i& top, __m256i& bottom) {
  const __m256i first = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,
                                         0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  const __m256i second =
      _mm256_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1,  //
                       6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const int pairs = Pairs ? Pairs : (taps.size[x] + 1) / 2;
  const size_t offset = size_t(taps.first[x]) * 3;
  const int16_t *low = taps.low_of(x), *high = taps.high_of(x);
  ColumnSums a{_mm256_set1_epi32(kHalf), _mm256_setzero_si256()}, b = a;
  for (int pair = 0; pair < pairs; pair += 2) {
    const size_t at = offset + size_t(pair) * 6;
    const __m256i from_a = load_two(in[0] + at, in[1] + at);
    const __m256i from_b = load_two(in[2] + at, in[3] + at);
    const __m256i low0 = broadcast_pair(low + pair * 2), high0 = broadcast_pair(high + pair * 2);
    add_pair(a, _mm256_shuffle_epi8(from_a, first), low0, high0);
    add_pair(b, _mm256_shuffle_epi8(from_b, first), low0, high0);
    if (pair + 1 == pairs) break;
    const __m256i low1 = broadcast_pair(low + pair * 2 + 2);
    const __m256i high1 = broadcast_pair(high + pair * 2 + 2);
    add_pair(a, _mm256_shuffle_epi8(from_a, second), low1, high1);
    add_pair(b, _mm256_shuffle_epi8(from_b, second), low1, high1);
  }
  top = _mm256_srai_epi32(_mm256_add_epi32(a.low, _mm256_slli_epi32(a.high, 16)), kWeightBits);
  bottom = _mm256_srai_epi32(_mm256_add_epi32(b.low, _mm256_slli_epi32(b.high, 16)), kWeightBits);
}

// Four pixels of two rows, as int32 with a fourth channel of nothing, to 12 bytes in each lane.
PENSTOCK_TARGET_AVX2 inline __m256i pack_pixels(const __m256i pixels[4]) {
  const __m256i dense = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,  //
                                         0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const __m256i words = _mm256_packus_epi16(_mm256_packs_epi32(pixels[0], pixels[1]),
                                            _mm256_packs_epi32(pixels[2], pixels[3]));
  return _mm256_shuffle_epi8(words, dense);
}

PENSTOCK_TARGET_AVX2 inline void store_lanes(__m256i lanes, uint8_t* upper, uint8_t* lower) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(upper), _mm256_castsi256_si128(lanes));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(lower), _mm256_extracti128_si256(lanes, 1));
}

template <int Pairs>
PENSTOCK_TARGET_AVX2 void columns_avx2(const uint8_t* const* in, uint8_t* const* out,
                                       const Taps& taps, int32_t width) {
  for (int32_t x = 0; x < width; x += 4) {
    __m256i top[4], bottom[4];
    for (int32_t i = 0; i < 4; ++i) sum_pixel<Pairs>(in, taps, x + i, top[i], bottom[i]);
    const size_t at = size_t(x) * 3, left = size_t(width) * 3 - at;
    if (left >= 16) {
      store_lanes(pack_pixels(top), out[0] + at, out[1] + at);
      store_lanes(pack_pixels(bottom), out[2] + at, out[3] + at);
    } else {  // a store of 16 bytes would reach past the end of the row
      uint8_t rest[kRowGroup][16];
      store_lanes(pack_pixels(top), rest[0], rest[1]);
      store_lanes(pack_pixels(bottom), rest[2], rest[3]);
      for (int32_t i = 0; i < kRowGroup; ++i)
        std::memcpy(out[i] + at, rest[i], std::min<size_t>(left, 12));
    }
  }
}

// The highs of two taps as bytes: a weight is at most a little above 1, so its high fits.
PENSTOCK_TARGET_AVX2 inline __m256i broadcast_bytes(const int16_t* pair) {
  return _mm256_set1_epi16(int16_t((pair[0] & 0xFF) | pair[1] * 256));
}

// Here the highs are multiplied as bytes, 16 outputs an instruction, and summed modulo 2^16: they
// are shifted by 16 bits in the end. `pmaddubsw` cannot saturate: |high| + |high'| is below 128.
template <int Pairs>
PENSTOCK_TARGET_AVX2 inline void rows_avx2(const uint8_t* const* window, size_t at, uint8_t* out,
                                           const int16_t* low, const int16_t* high, int pairs) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i sum[4], upper[2] = {zero, zero};
  for (__m256i& s : sum) s = _mm256_set1_epi32(kHalf);
  if (Pairs) pairs = Pairs;
  for (int pair = 0; pair < pairs; ++pair) {
    const __m256i lows = broadcast_pair(low + pair * 2);
    const __m256i highs = broadcast_bytes(high + pair * 2);
    const auto* a = reinterpret_cast<const __m256i*>(window[pair * 2] + at);
    const auto* b = reinterpret_cast<const __m256i*>(window[pair * 2 + 1] + at);
    const __m256i row_a = _mm256_loadu_si256(a), row_b = _mm256_loadu_si256(b);
    const __m256i mixed[2] = {_mm256_unpacklo_epi8(row_a, row_b),
                              _mm256_unpackhi_epi8(row_a, row_b)};
    for (int i = 0; i < 2; ++i) {
      upper[i] = _mm256_add_epi16(upper[i], _mm256_maddubs_epi16(mixed[i], highs));
      sum[i * 2] = _mm256_add_epi32(sum[i * 2],
                                    _mm256_madd_epi16(_mm256_unpacklo_epi8(mixed[i], zero), lows));
      sum[i * 2 + 1] = _mm256_add_epi32(
          sum[i * 2 + 1], _mm256_madd_epi16(_mm256_unpackhi_epi8(mixed[i], zero), lows));
    }
  }
  for (int i = 0; i < 4; ++i) {
    const __m256i shifted = i % 2 ? _mm256_unpackhi_epi16(zero, upper[i / 2])
                                  : _mm256_unpacklo_epi16(zero, upper[i / 2]);
    sum[i] = _mm256_srai_epi32(_mm256_add_epi32(sum[i], shifted), kWeightBits);
  }
  _mm256_storeu_si256(
      reinterpret_cast<__m256i*>(out),
      _mm256_packus_epi16(_mm256_packs_epi32(sum[0], sum[1]), _mm256_packs_epi32(sum[2], sum[3])));
}

template <int Pairs>
PENSTOCK_TARGET_AVX2 void row_avx2(const uint8_t* const* window, uint8_t* out, size_t bytes,
                                   const Taps& taps, int32_t output) {
  const int16_t *low = taps.low_of(output), *high = taps.high_of(output);
  const int pairs = (taps.size[output] + 1) / 2;
  size_t at = 0;
  for (; at + kBlock <= bytes; at += kBlock)
    rows_avx2<Pairs>(window, at, out + at, low, high, pairs);
  if (at == bytes) return;
  uint8_t rest[kBlock];
  rows_avx2<Pairs>(window, at, rest, low, high, pairs);
  std::memcpy(out + at, rest, bytes - at);
}
#endif

}  // namespace

void resample_columns(const uint8_t* const* in, uint8_t* const* out, const Taps& taps,
                      int32_t width) {
#if PENSTOCK_AVX2
  if (use_avx2()) {
    switch (taps.room / 2) {
      case 1:
        return columns_avx2<1>(in, out, taps, width);
      case 2:
        return columns_avx2<2>(in, out, taps, width);
      case 3:
        return columns_avx2<3>(in, out, taps, width);
      default:
        return columns_avx2<0>(in, out, taps, width);
    }
  }
#endif
  columns_portable(in, out, taps, width);
}

void resample_rows(const uint8_t* const* window, uint8_t* out, size_t bytes, const Taps& taps,
                   int32_t output) {
#if PENSTOCK_AVX2
  if (use_avx2()) {
    switch ((taps.size[output] + 1) / 2) {
      case 1:
        return row_avx2<1>(window, out, bytes, taps, output);
      case 2:
        return row_avx2<2>(window, out, bytes, taps, output);
      default:
        return row_avx2<0>(window, out, bytes, taps, output);
    }
  }
#endif
  uint8_t block[kBlock];
  for (size_t at = 0; at < bytes; at += kBlock) {
    rows_portable(window, at, block, taps, output);
    std::memcpy(out + at, block, std::min(kBlock, bytes - at));
  }
}

}  // namespace penstock
