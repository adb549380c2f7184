#include "pixels.h"

#include <algorithm>
#include <cmath>

#include "simd.h"

#if PENSTOCK_AVX2
#include <immintrin.h>
#endif

namespace penstock {
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

#if PENSTOCK_AVX2
PENSTOCK_TARGET_AVX2 inline __m256i load_levels(const uint8_t* bytes) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
}

PENSTOCK_TARGET_AVX2 void blend_avx2(uint8_t* bytes, const uint8_t* from, size_t size,
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
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes + at),
                        _mm256_permutevar8x32_epi32(packed, in_order));
  }
  blend_portable(bytes + at, from + at, size - at, factor);
}
#endif

void blend(uint8_t* bytes, const uint8_t* from, size_t size, float factor) {
#if PENSTOCK_AVX2
  if (use_avx2()) return blend_avx2(bytes, from, size, factor);
#endif
  blend_portable(bytes, from, size, factor);
}

// Pillow's conversion to mode L.
uint8_t grey_of(const uint8_t* pixel) {
  return uint8_t((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

int mean_grey(const uint8_t* pixels, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += grey_of(pixels + i * 3);
  return int(double(sum) / double(count) + 0.5);
}

void blend_with_level(uint8_t* pixels, size_t count, int level, float factor) {
  uint8_t from[kBlock * 3];
  std::fill_n(from, std::min(kBlock, count) * 3, uint8_t(level));
  for (size_t begin = 0; begin < count; begin += kBlock)
    blend(pixels + begin * 3, from, std::min(kBlock, count - begin) * 3, factor);
}

void blend_with_grey(uint8_t* pixels, size_t count, float factor) {
  uint8_t from[kBlock * 3];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t block = std::min(kBlock, count - begin);
    const uint8_t* pixel = pixels + begin * 3;
    for (size_t i = 0; i < block * 3; i += 3)
      from[i] = from[i + 1] = from[i + 2] = grey_of(pixel + i);
    blend(pixels + begin * 3, from, block * 3, factor);
  }
}

template <typename Element>
void look_up_interleaved(const uint8_t* pixels, size_t count, const Element* table, Element* out) {
  for (size_t i = 0; i < count * 3; i += 3) {
    out[i] = table[pixels[i]];
    out[i + 1] = table[256 + pixels[i + 1]];
    out[i + 2] = table[512 + pixels[i + 2]];
  }
}

template <typename Element>
void look_up_planar(const uint8_t* pixels, size_t count, const Element* table, Element* out) {
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, count);
    for (size_t channel = 0; channel < 3; ++channel)
      for (size_t i = begin; i < end; ++i)
        out[channel * count + i] = table[channel * 256 + pixels[i * 3 + channel]];
  }
}

template <typename Element>
void look_up_elements(const uint8_t* pixels, size_t count, const void* table, bool planar,
                      void* out) {
  const auto* from = static_cast<const Element*>(table);
  auto* to = static_cast<Element*>(out);
  if (planar)
    look_up_planar(pixels, count, from, to);
  else
    look_up_interleaved(pixels, count, from, to);
}

}  // namespace

void jitter_color(uint8_t* pixels, size_t count, const float factors[3], const uint8_t order[3]) {
  for (int step = 0; step < 3; ++step) {
    const float factor = factors[order[step]];
    if (factor == 1.0f) continue;
    if (order[step] == 0)
      blend_with_level(pixels, count, 0, factor);
    else if (order[step] == 1)
      blend_with_level(pixels, count, mean_grey(pixels, count), factor);
    else
      blend_with_grey(pixels, count, factor);
  }
}

void add_offset(uint8_t* pixels, size_t count, const float offset[3]) {
  uint8_t table[3 * 256];
  for (int channel = 0; channel < 3; ++channel)
    for (int level = 0; level < 256; ++level)
      table[channel * 256 + level] = uint8_t(clip(std::nearbyint(float(level) + offset[channel])));
  look_up(pixels, count, table, 1, false, pixels);
}

void look_up(const uint8_t* pixels, size_t count, const void* table, size_t element_size,
             bool planar, void* out) {
  if (element_size == 1)
    look_up_elements<uint8_t>(pixels, count, table, planar, out);
  else if (element_size == 2)
    look_up_elements<uint16_t>(pixels, count, table, planar, out);
  else
    look_up_elements<uint32_t>(pixels, count, table, planar, out);
}

}  // namespace penstock
