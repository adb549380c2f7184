#include "pixels.h"

#include <algorithm>
#include <cmath>

#include "simd.h"

#if PENSTOCK_AVX2
#define PENSTOCK_INLINE inline __attribute__((always_inline))
#else
#define PENSTOCK_INLINE inline
#endif

namespace penstock {
namespace {

constexpr size_t kBlock = 256;  // pixels of which the greys are computed at once

// Pillow's conversion to mode L.
PENSTOCK_INLINE uint32_t grey_of(const uint8_t* pixel) {
  return (pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16;
}

// Pillow's Image.blend: in float, clipped, truncated.
PENSTOCK_INLINE uint8_t blend(int from, int to, float factor) {
  const float mixed = float(from) + factor * float(to - from);
  return uint8_t(int(mixed > 0.0f ? (mixed < 255.0f ? mixed : 255.0f) : 0.0f));
}

PENSTOCK_INLINE void blend_with_level(uint8_t* bytes, size_t size, int level, float factor) {
  for (size_t i = 0; i < size; ++i) bytes[i] = blend(level, bytes[i], factor);
}

PENSTOCK_INLINE void blend_with_grey(uint8_t* pixels, size_t count, float factor) {
  uint8_t grey[kBlock * 3];
  for (size_t begin = 0; begin < count; begin += kBlock, pixels += kBlock * 3) {
    const size_t block = std::min(kBlock, count - begin);
    for (size_t i = 0; i < block; ++i)
      grey[i * 3] = grey[i * 3 + 1] = grey[i * 3 + 2] = uint8_t(grey_of(pixels + i * 3));
    for (size_t i = 0; i < block * 3; ++i) pixels[i] = blend(grey[i], pixels[i], factor);
  }
}

PENSTOCK_INLINE int mean_grey(const uint8_t* pixels, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += grey_of(pixels + i * 3);
  return int(double(sum) / double(count) + 0.5);
}

PENSTOCK_INLINE void jitter(uint8_t* pixels, size_t count, const float factors[3],
                            const uint8_t order[3]) {
  for (int step = 0; step < 3; ++step) {
    const float factor = factors[order[step]];
    if (factor == 1.0f) continue;
    if (order[step] == 0)
      blend_with_level(pixels, count * 3, 0, factor);
    else if (order[step] == 1)
      blend_with_level(pixels, count * 3, mean_grey(pixels, count), factor);
    else
      blend_with_grey(pixels, count, factor);
  }
}

#if PENSTOCK_AVX2
// The same code, compiled for wider vectors.
PENSTOCK_TARGET_AVX2 void jitter_avx2(uint8_t* pixels, size_t count, const float factors[3],
                                      const uint8_t order[3]) {
  jitter(pixels, count, factors, order);
}
#endif

template <typename Element>
void look_up_elements(const uint8_t* pixels, size_t count, const Element* table, bool planar,
                      Element* out) {
  if (planar) {
    for (size_t channel = 0; channel < 3; ++channel)
      for (size_t i = 0; i < count; ++i) *out++ = table[channel * 256 + pixels[i * 3 + channel]];
  } else {
    for (size_t i = 0; i < count * 3; i += 3) {
      out[i] = table[pixels[i]];
      out[i + 1] = table[256 + pixels[i + 1]];
      out[i + 2] = table[512 + pixels[i + 2]];
    }
  }
}

}  // namespace

void jitter_color(uint8_t* pixels, size_t count, const float factors[3], const uint8_t order[3]) {
#if PENSTOCK_AVX2
  if (use_avx2()) return jitter_avx2(pixels, count, factors, order);
#endif
  jitter(pixels, count, factors, order);
}

void add_offset(uint8_t* pixels, size_t count, const float offset[3]) {
  uint8_t table[3 * 256];
  for (int channel = 0; channel < 3; ++channel)
    for (int level = 0; level < 256; ++level) {
      const float moved = std::nearbyint(float(level) + offset[channel]);
      table[channel * 256 + level] =
          uint8_t(moved > 0.0f ? (moved < 255.0f ? moved : 255.0f) : 0.0f);
    }
  look_up(pixels, count, table, 1, false, pixels);
}

void look_up(const uint8_t* pixels, size_t count, const void* table, size_t element_size,
             bool planar, void* out) {
  if (element_size == 1)
    look_up_elements(pixels, count, static_cast<const uint8_t*>(table), planar,
                     static_cast<uint8_t*>(out));
  else if (element_size == 2)
    look_up_elements(pixels, count, static_cast<const uint16_t*>(table), planar,
                     static_cast<uint16_t*>(out));
  else
    look_up_elements(pixels, count, static_cast<const uint32_t*>(table), planar,
                     static_cast<uint32_t*>(out));
}

}  // namespace penstock
