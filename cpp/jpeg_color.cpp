#include "jpeg_color.h"

#include <algorithm>

#include "simd.h"

namespace headrace {
namespace {

// libjpeg's factors have 16 fractional bits. These have 14 for red and blue, 15 for green, which
// give the same levels for all samples.
constexpr int kCrToRed = 22970, kCbToBlue = 29033, kCbToGreen = -11277, kCrToGreen = -23401;

uint8_t clamp_sample(int value) { return uint8_t(std::clamp(value, 0, 255)); }

void convert_portable(const uint8_t* const in[3], uint8_t* out, size_t line, int n) {
  for (int i = 0; i < n; ++i, ++out) {
    const int y = in[0][i], cb = in[1][i] - 128, cr = in[2][i] - 128;
    out[0] = clamp_sample(y + ((kCrToRed * cr + (1 << 13)) >> 14));
    out[line] = clamp_sample(y + ((kCbToGreen * cb + kCrToGreen * cr + (1 << 14)) >> 15));
    out[2 * line] = clamp_sample(y + ((kCbToBlue * cb + (1 << 13)) >> 14));
  }
}

#if HEADRACE_AVX2

struct Levels {
  __m256i red, green, blue;
};

// The bytes `first`, `second`, again and again.
AVX2_INLINE __m256i factors(int first, int second) {
  return _mm256_set1_epi16(int16_t((first & 0xFF) | second * 256));
}

// (factor * a + 2^14) >> 15
AVX2_INLINE __m256i multiply_round(__m256i a, int16_t factor) {
  return _mm256_mulhrs_epi16(a, _mm256_set1_epi16(factor));
}

// The sum of products of green has more than 16 bits: it is 256 high + low, with the factors
// -11277 = 256 * -44 - 13 and -23401 = 256 * 37 - 105 - 32768, the last part of which is taken off
// apart. Samples are not centred here; 955 makes up for that.
AVX2_INLINE __m256i green_offset(__m256i cb_cr, __m256i twice_cr) {
  const __m256i high = _mm256_maddubs_epi16(cb_cr, factors(-44, 37));
  const __m256i low = _mm256_maddubs_epi16(cb_cr, factors(-13, -105));
  const __m256i sum =
      _mm256_add_epi16(_mm256_add_epi16(high, _mm256_srai_epi16(low, 8)), _mm256_set1_epi16(955));
  return multiply_round(_mm256_sub_epi16(sum, _mm256_slli_epi16(twice_cr, 6)), 1 << 8);
}

// 16 pixels in 16-bit lanes, from samples that a 128 follows; of chroma also side by side.
AVX2_INLINE Levels convert(__m256i y, __m256i cb, __m256i cr, __m256i cb_cr) {
  const __m256i twice_cb = _mm256_maddubs_epi16(cb, factors(2, -2));
  const __m256i twice_cr = _mm256_maddubs_epi16(cr, factors(2, -2));
  return {_mm256_add_epi16(y, multiply_round(twice_cr, kCrToRed)),
          _mm256_add_epi16(y, green_offset(cb_cr, twice_cr)),
          _mm256_add_epi16(y, multiply_round(twice_cb, kCbToBlue))};
}

// Low and high halves are taken by unpacking, which packing undoes: no lane is crossed.
HEADRACE_TARGET_AVX2 void convert_avx2(const uint8_t* const in[3], uint8_t* out, size_t line,
                                       int n) {
  const __m256i zero = _mm256_setzero_si256(), center = _mm256_set1_epi8(-128);
  const uint8_t *luma = in[0], *blueness = in[1], *redness = in[2];
  for (int i = 0; i < n; i += int(kLineUnit), out += kLineUnit) {
    const __m256i y = load_bytes(luma + i), cb = load_bytes(blueness + i),
                  cr = load_bytes(redness + i);
    const Levels low = convert(_mm256_unpacklo_epi8(y, zero), _mm256_unpacklo_epi8(cb, center),
                               _mm256_unpacklo_epi8(cr, center), _mm256_unpacklo_epi8(cb, cr));
    const Levels high = convert(_mm256_unpackhi_epi8(y, zero), _mm256_unpackhi_epi8(cb, center),
                                _mm256_unpackhi_epi8(cr, center), _mm256_unpackhi_epi8(cb, cr));
    store_bytes(out, _mm256_packus_epi16(low.red, high.red));
    store_bytes(out + line, _mm256_packus_epi16(low.green, high.green));
    store_bytes(out + 2 * line, _mm256_packus_epi16(low.blue, high.blue));
  }
}

#endif

}  // namespace

void convert_ycc(const uint8_t* const in[3], uint8_t* out, size_t line, int n) {
#if HEADRACE_AVX2
  if (use_avx2()) return convert_avx2(in, out, line, n);
#endif
  convert_portable(in, out, line, n);
}

}  // namespace headrace
