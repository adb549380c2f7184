// Which instructions the hot loops use. Every variant gives the same bits.
#pragma once

#include <cstddef>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HEADRACE_AVX2 1
#define HEADRACE_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2")))
#define AVX2_INLINE HEADRACE_TARGET_AVX2 inline __attribute__((always_inline))
#else
#define HEADRACE_AVX2 0
#endif

namespace headrace {

// How many bytes the hot loops may read past the end of a row, and write where they say so.
constexpr int kRowPadding = 64;

// Bytes that the hot loops over planar lines work on at once: no line ends in the middle of them.
constexpr size_t kLineUnit = 32;

#if HEADRACE_AVX2
AVX2_INLINE __m256i load_bytes(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

AVX2_INLINE __m256i load_lanes(const void* lower, const void* upper) {
  return _mm256_set_m128i(_mm_loadu_si128(static_cast<const __m128i*>(upper)),
                          _mm_loadu_si128(static_cast<const __m128i*>(lower)));
}

AVX2_INLINE void store_bytes(void* to, __m256i bytes) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), bytes);
}

AVX2_INLINE void store_lanes(void* lower, void* upper, __m256i bytes) {
  _mm_storeu_si128(static_cast<__m128i*>(lower), _mm256_castsi256_si128(bytes));
  _mm_storeu_si128(static_cast<__m128i*>(upper), _mm256_extracti128_si256(bytes, 1));
}

// Turns eight by eight elements of 16 bits in each lane: rows become columns.
AVX2_INLINE void transpose_lanes(__m256i rows[8]) {
  for (int round = 0; round < 3; ++round) {
    __m256i mixed[8];
    for (int i = 0; i < 4; ++i) {
      mixed[i * 2] = _mm256_unpacklo_epi16(rows[i], rows[i + 4]);
      mixed[i * 2 + 1] = _mm256_unpackhi_epi16(rows[i], rows[i + 4]);
    }
    for (int i = 0; i < 8; ++i) rows[i] = mixed[i];
  }
}
#endif

// True when the CPU has AVX2 and BMI2 and the portable path is not forced.
bool use_avx2();

// For tests: take the portable path even where AVX2 is there.
void force_portable(bool portable);

}  // namespace headrace
