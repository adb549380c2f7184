#include "color.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "elements.h"
#include "interleave.h"
#include "simd.h"

namespace headrace {
namespace {

constexpr size_t kBlock = 1024;  // pixels that are blended at once

// Not a number becomes 0.
float clip(float level) {
  level = level > 0.0f ? level : 0.0f;
  return level < 255.0f ? level : 255.0f;
}

// Pillow's Image.blend: from `from` to `bytes`, in float, clipped, truncated.
void blend_portable(uint8_t* bytes, const uint8_t* from, size_t size, float factor) {
  for (size_t i = 0; i < size; ++i) {
    const float mixed = float(from[i]) + factor * float(bytes[i] - from[i]);
    bytes[i] = uint8_t(clip(mixed));
  }
}

#if HEADRACE_AVX2
AVX2_INLINE __m256i load_levels(const uint8_t* bytes) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
}

HEADRACE_TARGET_AVX2 void blend_avx2(uint8_t* bytes, const uint8_t* from, size_t size,
                                     float factor) {
  const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  size_t at = 0;
  for (; at + 32 <= size; at += 32) {
    __m256i mixed[4];
    for (size_t i = 0; i < 4; ++i) {
      const __m256i start = load_levels(from + at + i * 8);
      const __m256i way = _mm256_sub_epi32(load_levels(bytes + at + i * 8), start);
      const __m256 moved = _mm256_mul_ps(_mm256_set1_ps(factor), _mm256_cvtepi32_ps(way));
      const __m256 level = _mm256_add_ps(_mm256_cvtepi32_ps(start), moved);
      mixed[i] = _mm256_cvttps_epi32(
          _mm256_min_ps(_mm256_max_ps(level, _mm256_setzero_ps()), _mm256_set1_ps(255.0f)));
    }
    const __m256i packed = _mm256_packus_epi16(_mm256_packs_epi32(mixed[0], mixed[1]),
                                               _mm256_packs_epi32(mixed[2], mixed[3]));
    store_bytes(bytes + at, _mm256_permutevar8x32_epi32(packed, in_order));
  }
  blend_portable(bytes + at, from + at, size - at, factor);
}
#endif

// Pillow's conversion to mode L, a byte a pixel.
void make_grey_portable(const uint8_t* pixels, size_t count, uint8_t* grey) {
  for (size_t i = 0; i < count; ++i, pixels += 3)
    grey[i] =
        uint8_t((pixels[0] * 19595u + pixels[1] * 38470u + pixels[2] * 7471u + 0x8000u) >> 16);
}

#if HEADRACE_AVX2
// The weight of green has 16 bits, the instruction 15: it is taken in two halves.
HEADRACE_TARGET_AVX2 void make_grey_avx2(const uint8_t* pixels, size_t count, uint8_t* grey) {
  const __m128i red_green = _mm_setr_epi8(0, -1, 1, -1, 3, -1, 4, -1, 6, -1, 7, -1, 9, -1, 10, -1);
  const __m128i green_blue =
      _mm_setr_epi8(1, -1, 2, -1, 4, -1, 5, -1, 7, -1, 8, -1, 10, -1, 11, -1);
  const __m128i first = _mm_set1_epi32(19235 << 16 | 19595);
  const __m128i second = _mm_set1_epi32(7471 << 16 | 19235);
  size_t i = 0;
  for (; i * 3 + 16 <= count * 3; i += 4) {
    const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + i * 3));
    const __m128i sum = _mm_add_epi32(_mm_madd_epi16(_mm_shuffle_epi8(four, red_green), first),
                                      _mm_madd_epi16(_mm_shuffle_epi8(four, green_blue), second));
    const __m128i level = _mm_srli_epi32(_mm_add_epi32(sum, _mm_set1_epi32(0x8000)), 16);
    const __m128i bytes = _mm_packus_epi16(_mm_packus_epi32(level, level), level);
    const int32_t packed = _mm_cvtsi128_si32(bytes);
    std::memcpy(grey + i, &packed, 4);
  }
  make_grey_portable(pixels + i * 3, count - i, grey + i);
}
#endif

// The routines above for this CPU.
struct Kernels {
  void (*blend)(uint8_t* bytes, const uint8_t* from, size_t size, float factor);
  void (*make_grey)(const uint8_t* pixels, size_t count, uint8_t* grey);
};

Kernels choose_kernels() {
#if HEADRACE_AVX2
  if (use_avx2()) return {blend_avx2, make_grey_avx2};
#endif
  return {blend_portable, make_grey_portable};
}

uint8_t mean_grey(const Kernels& run, const uint8_t* pixels, size_t count) {
  uint8_t grey[kBlock];
  uint64_t sum = 0;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t block = std::min(kBlock, count - begin);
    run.make_grey(pixels + begin * 3, block, grey);
    sum += std::accumulate(grey, grey + block, 0u);
  }
  return uint8_t(double(sum) / double(count) + 0.5);
}

void blend_with_level(const Kernels& run, uint8_t* pixels, size_t count, uint8_t level,
                      float factor) {
  uint8_t from[kBlock * 3];
  std::fill_n(from, std::min(kBlock, count) * 3, level);
  for (size_t begin = 0; begin < count; begin += kBlock)
    run.blend(pixels + begin * 3, from, std::min(kBlock, count - begin) * 3, factor);
}

void blend_with_grey(const Kernels& run, uint8_t* pixels, size_t count, float factor) {
  uint8_t grey[kBlock], from[kBlock * 3];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t block = std::min(kBlock, count - begin);
    run.make_grey(pixels + begin * 3, block, grey);
    interleave({grey, int32_t(block), 1, 1}, from, 0);
    run.blend(pixels + begin * 3, from, block * 3, factor);
  }
}

}  // namespace

void jitter_color(uint8_t* pixels, size_t count, const float factors[3], const uint8_t order[3]) {
  const Kernels run = choose_kernels();
  for (int step = 0; step < 3; ++step) {
    const float factor = factors[order[step]];
    if (factor == 1.0f) continue;
    if (order[step] == 0)
      blend_with_level(run, pixels, count, 0, factor);
    else if (order[step] == 1)
      blend_with_level(run, pixels, count, mean_grey(run, pixels, count), factor);
    else
      blend_with_grey(run, pixels, count, factor);
  }
}

void add_offset(uint8_t* pixels, size_t count, const float offset[3]) {
  uint8_t table[3 * 256];
  for (int channel = 0; channel < 3; ++channel)
    for (int level = 0; level < 256; ++level)
      table[channel * 256 + level] = uint8_t(clip(std::nearbyint(float(level) + offset[channel])));
  look_up(pixels, count, table, 1, false, pixels);
}

}  // namespace headrace
