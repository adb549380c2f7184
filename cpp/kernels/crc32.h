// CRC-32 of PNG chunks (the polynomial of zlib), by tables, or by carry-less products with AVX2.
#pragma once

#include <array>

#include "vector.h"

#if defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace headrace {
namespace {

using PngTables = std::array<std::array<uint32_t, 256>, 8>;

// Table s has the CRC of each byte followed by s zero bytes.
constexpr PngTables make_png_tables() {
  PngTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (auto& table : tables) {
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0xEDB88320 : 0);
      table[byte] = crc;
    }
  }
  return tables;
}

constexpr PngTables kPngTables = make_png_tables();

HEADRACE_INLINE uint32_t update_png_word(uint32_t crc, const uint8_t* data) {
  uint64_t word;
  std::memcpy(&word, data, 8);
#if defined(__ARM_FEATURE_CRC32)
  return __crc32d(crc, word);
#else
  word ^= crc;
  uint32_t sum = 0;
  for (size_t i = 0; i < 8; ++i) sum ^= kPngTables[7 - i][word >> 8 * i & 0xFF];
  return sum;
#endif
}

#if HEADRACE_AVX2
// The 16 bytes of `sum`, moved on by the distance of `factors`, plus those of `data`.
HEADRACE_INLINE __m128i fold(__m128i sum, __m128i factors, const uint8_t* data) {
  const __m128i next = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
  return _mm_xor_si128(next, _mm_xor_si128(_mm_clmulepi64_si128(sum, factors, 0x00),
                                           _mm_clmulepi64_si128(sum, factors, 0x11)));
}

// Reduces whole blocks of 64 bytes to 16 bytes that have the same CRC when they start from zero.
// The factors are x to the power of the distance in bits, plus and minus 32, modulo the polynomial
// (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", 2009).
HEADRACE_INLINE uint32_t fold_blocks(uint32_t crc, const uint8_t*& data, size_t& size) {
  const __m128i by_64 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4);
  const __m128i by_16 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
  __m128i sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i);
  sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128(int(crc)));
  for (data += 64, size -= 64; size >= 64; data += 64, size -= 64)
    for (size_t i = 0; i < 4; ++i) sums[i] = fold(sums[i], by_64, data + 16 * i);
  uint8_t bytes[16];
  for (int i = 1; i < 4; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), sums[i]);
    sums[0] = fold(sums[0], by_16, bytes);
  }
  _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), sums[0]);
  return update_png_word(update_png_word(0, bytes), bytes + 8);
}
#endif

uint32_t update_crc32(uint32_t crc, const uint8_t* data, size_t size) {
#if HEADRACE_AVX2
  if (size >= 64) crc = fold_blocks(crc, data, size);
#endif
  for (; size >= 8; data += 8, size -= 8) crc = update_png_word(crc, data);
  for (; size > 0; ++data, --size) crc = (crc >> 8) ^ kPngTables[0][(crc ^ *data) & 0xFF];
  return crc;
}

}  // namespace
}  // namespace headrace
