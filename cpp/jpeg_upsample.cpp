#include "jpeg_upsample.h"

#include <cstring>

#include "simd.h"

namespace headrace {
namespace {

void h2_portable(const uint8_t* in, uint8_t* out, int n) {
  for (int i = 0; i < n; ++i) {
    out[2 * i] = uint8_t((3 * in[i] + in[i - 1] + 1) >> 2);
    out[2 * i + 1] = uint8_t((3 * in[i] + in[i + 1] + 2) >> 2);
  }
}

void v2_portable(const uint8_t* near, const uint8_t* far, uint8_t* out, int n, int bias) {
  for (int i = 0; i < n; ++i) out[i] = uint8_t((3 * near[i] + far[i] + bias) >> 2);
}

void h2v2_portable(const uint8_t* near, const uint8_t* far, uint8_t* out, int n) {
  for (int i = 0; i < n; ++i) {
    const int left = 3 * near[i - 1] + far[i - 1];
    const int here = 3 * near[i] + far[i];
    const int right = 3 * near[i + 1] + far[i + 1];
    out[2 * i] = uint8_t((3 * here + left + 8) >> 4);
    out[2 * i + 1] = uint8_t((3 * here + right + 7) >> 4);
  }
}

#if HEADRACE_AVX2

AVX2_INLINE __m256i load_wide(const uint8_t* in) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
}

AVX2_INLINE __m256i times3(__m256i a) { return _mm256_add_epi16(a, _mm256_slli_epi16(a, 1)); }

AVX2_INLINE __m256i column_sum(const uint8_t* near, const uint8_t* far) {
  return _mm256_add_epi16(times3(load_wide(near)), load_wide(far));
}

// Even and odd samples, in the low bytes of 16-bit lanes, one after the other.
AVX2_INLINE void store_pairs(uint8_t* out, __m256i even, __m256i odd) {
  store_bytes(out, _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

HEADRACE_TARGET_AVX2 void h2_avx2(const uint8_t* in, uint8_t* out, int n) {
  for (int i = 0; i < n; i += 16) {
    const __m256i here = times3(load_wide(in + i));
    const __m256i even =
        _mm256_add_epi16(_mm256_add_epi16(here, load_wide(in + i - 1)), _mm256_set1_epi16(1));
    const __m256i odd =
        _mm256_add_epi16(_mm256_add_epi16(here, load_wide(in + i + 1)), _mm256_set1_epi16(2));
    store_pairs(out + 2 * i, _mm256_srli_epi16(even, 2), _mm256_srli_epi16(odd, 2));
  }
}

HEADRACE_TARGET_AVX2 void v2_avx2(const uint8_t* near, const uint8_t* far, uint8_t* out, int n,
                                  int bias) {
  const __m256i bias16 = _mm256_set1_epi16(int16_t(bias));
  for (int i = 0; i < n; i += 16) {
    const __m256i sum = _mm256_add_epi16(column_sum(near + i, far + i), bias16);
    const __m256i bytes = _mm256_packus_epi16(_mm256_srli_epi16(sum, 2), _mm256_setzero_si256());
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_castsi256_si128(_mm256_permute4x64_epi64(bytes, 0xD8)));
  }
}

HEADRACE_TARGET_AVX2 void h2v2_avx2(const uint8_t* near, const uint8_t* far, uint8_t* out, int n) {
  for (int i = 0; i < n; i += 16) {
    const __m256i here = times3(column_sum(near + i, far + i));
    const __m256i even = _mm256_add_epi16(
        _mm256_add_epi16(here, column_sum(near + i - 1, far + i - 1)), _mm256_set1_epi16(8));
    const __m256i odd = _mm256_add_epi16(
        _mm256_add_epi16(here, column_sum(near + i + 1, far + i + 1)), _mm256_set1_epi16(7));
    store_pairs(out + 2 * i, _mm256_srli_epi16(even, 4), _mm256_srli_epi16(odd, 4));
  }
}

#endif

constexpr Upsampler kPortable{h2_portable, v2_portable, h2v2_portable};
#if HEADRACE_AVX2
constexpr Upsampler kAvx2{h2_avx2, v2_avx2, h2v2_avx2};
#endif

}  // namespace

const Upsampler& upsampler() {
#if HEADRACE_AVX2
  if (use_avx2()) return kAvx2;
#endif
  return kPortable;
}

void replicate(const uint8_t* in, uint8_t* out, int n, int factor) {
  for (int i = 0; i < n; ++i, out += factor) std::memset(out, in[i], size_t(factor));
}

}  // namespace headrace
