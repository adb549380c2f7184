// Operations on the levels of bytes, in place. The compiler turns the loops into vectors.
#pragma once

#include "vector.h"

namespace headrace {
namespace {

#if HEADRACE_AVX2
// The entries of a table for 32 levels. The upper four bits choose among its 16 parts.
HEADRACE_INLINE __m256i look_up_vector(__m256i levels, const __m256i (&parts)[16]) {
  const __m256i lower = _mm256_and_si256(levels, _mm256_set1_epi8(15));
  __m256i found[16];
  for (int i = 0; i < 16; ++i) found[i] = _mm256_shuffle_epi8(parts[i], lower);
  for (int bit = 4; bit < 8; ++bit) {
    const __m256i upper = _mm256_slli_epi16(levels, 7 - bit);  // the bit becomes the sign
    for (int i = 0; i < 128 >> bit; ++i)
      found[i] = _mm256_blendv_epi8(found[2 * i], found[2 * i + 1], upper);
  }
  return found[0];
}
#endif

// Replaces each byte by its entry in a table of 256.
void map_levels(uint8_t* bytes, size_t size, const uint8_t* table) {
  size_t i = 0;
#if HEADRACE_AVX2
  __m256i parts[16];
  for (int part = 0; part < 16; ++part)
    parts[part] = __m256i(load_halves<uint8_t>(table + part * 16, table + part * 16).whole);
  for (; i + kVectorBytes <= size; i += kVectorBytes) {
    const U8 mapped{
        Register<uint8_t>(look_up_vector(__m256i(load<uint8_t>(bytes + i).whole), parts))};
    store(bytes + i, mapped);
  }
#endif
  for (; i < size; ++i) bytes[i] = table[bytes[i]];
}

void mask_levels(uint8_t* bytes, size_t size, uint8_t mask) {
  for (size_t i = 0; i < size; ++i) bytes[i] &= mask;
}

// Inverts levels from `first` on.
void solarize_from(uint8_t* bytes, size_t size, uint8_t first) {
  for (size_t i = 0; i < size; ++i) {
    const uint8_t level = bytes[i];
    bytes[i] = level >= first ? uint8_t(~level) : level;
  }
}

// Adds to levels up to `last`, and clips to a byte.
void add_up_to(uint8_t* bytes, size_t size, int add, uint8_t last) {
  const auto more = uint8_t(add > 0 ? add : 0), less = uint8_t(add < 0 ? -add : 0);
  for (size_t i = 0; i < size; ++i) {
    const uint8_t level = bytes[i], sum = uint8_t(level + more);
    const uint8_t grown = sum < level ? uint8_t(255) : sum;
    const uint8_t moved = grown < less ? uint8_t(0) : uint8_t(grown - less);
    bytes[i] = level <= last ? moved : level;
  }
}

// The least and the most of each channel of RGB pixels.
void find_levels(const uint8_t* pixels, size_t count, uint8_t least[3], uint8_t most[3]) {
  constexpr size_t kStep = 3 * kVectorBytes;
  uint8_t low[kStep], high[kStep];
  std::memset(low, 255, kStep);
  std::memset(high, 0, kStep);
  size_t size = count * 3;
  for (; size >= kStep; size -= kStep, pixels += kStep)
    for (size_t i = 0; i < kStep; ++i) {
      low[i] = pixels[i] < low[i] ? pixels[i] : low[i];
      high[i] = pixels[i] > high[i] ? pixels[i] : high[i];
    }
  for (size_t i = 0; i < size; ++i) {
    low[i] = std::min(low[i], pixels[i]);
    high[i] = std::max(high[i], pixels[i]);
  }
  for (size_t i = 0; i < kStep; ++i) {
    least[i % 3] = i < 3 ? low[i] : std::min(least[i % 3], low[i]);
    most[i % 3] = i < 3 ? high[i] : std::max(most[i % 3], high[i]);
  }
}

}  // namespace
}  // namespace headrace
