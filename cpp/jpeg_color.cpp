#include "jpeg_color.h"

#include <algorithm>
#include <cstring>

#include "simd.h"

#if PENSTOCK_AVX2
#include <immintrin.h>
#endif

namespace penstock {
namespace {

// Factors with 16 fractional bits, without their whole part so that they fit into 16 bits:
// 1.402 = 1 + 0.402, 1.772 = 2 - 0.228, 0.71414 = 1 - 0.28586.
constexpr int kCrToRed = 26345, kCbToBlue = -14942, kCbToGreen = -22554, kCrToGreen = 18734;

uint8_t clamp_sample(int value) { return uint8_t(std::clamp(value, 0, 255)); }

void ycc_portable(const uint8_t* const rows[3], uint8_t* out, int n) {
  constexpr int half = 1 << 15;
  for (int i = 0; i < n; ++i, out += 3) {
    const int y = rows[0][i], cb = rows[1][i] - 128, cr = rows[2][i] - 128;
    out[0] = clamp_sample(y + cr + ((kCrToRed * cr + half) >> 16));
    out[1] = clamp_sample(y - cr + ((kCbToGreen * cb + kCrToGreen * cr + half) >> 16));
    out[2] = clamp_sample(y + 2 * cb + ((kCbToBlue * cb + half) >> 16));
  }
}

void rgb_portable(const uint8_t* const rows[3], uint8_t* out, int n) {
  for (int i = 0; i < n; ++i, out += 3)
    for (int c = 0; c < 3; ++c) out[c] = rows[c][i];
}

void grey_portable(const uint8_t* const rows[3], uint8_t* out, int n) {
  for (int i = 0; i < n; ++i, out += 3) out[0] = out[1] = out[2] = rows[0][i];
}

#if PENSTOCK_AVX2

#define TARGET PENSTOCK_TARGET_AVX2 inline __attribute__((always_inline))

struct Pixels {
  __m256i r, g, b;  // 32 samples each
};

TARGET __m256i load(const uint8_t* in) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
}

// Byte i of the 16-byte part t of the output is component (16 t + i) % 3 of pixel (16 t + i) / 3.
struct Shuffles {
  alignas(16) int8_t index[3][3][16];  // [part][component]
};

constexpr Shuffles make_shuffles() {
  Shuffles shuffles{};
  for (int part = 0; part < 3; ++part)
    for (int c = 0; c < 3; ++c)
      for (int i = 0; i < 16; ++i) {
        const int at = 16 * part + i;
        shuffles.index[part][c][i] = int8_t(at % 3 == c ? at / 3 : -1);
      }
  return shuffles;
}

constexpr Shuffles kShuffles = make_shuffles();

TARGET __m256i spread(__m256i samples, int part, int c) {
  const auto* index = reinterpret_cast<const __m128i*>(kShuffles.index[part][c]);
  return _mm256_shuffle_epi8(samples, _mm256_broadcastsi128_si256(_mm_load_si128(index)));
}

// 16 bytes of each of the three rows to 48 bytes, in the lower and in the upper halves.
TARGET void store_interleaved(Pixels p, uint8_t* out) {
  __m256i parts[3];
  for (int t = 0; t < 3; ++t)
    parts[t] =
        _mm256_or_si256(_mm256_or_si256(spread(p.r, t, 0), spread(p.g, t, 1)), spread(p.b, t, 2));
  const __m256i first = _mm256_permute2x128_si256(parts[0], parts[1], 0x20);
  const __m256i second = _mm256_permute2x128_si256(parts[2], parts[0], 0x30);
  const __m256i third = _mm256_permute2x128_si256(parts[1], parts[2], 0x31);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), first);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 32), second);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 64), third);
}

// (factor * a + 2^15) >> 16
TARGET __m256i multiply_round(__m256i a, int16_t factor) {
  const __m256i product = _mm256_mulhi_epi16(_mm256_add_epi16(a, a), _mm256_set1_epi16(factor));
  return _mm256_srai_epi16(_mm256_add_epi16(product, _mm256_set1_epi16(1)), 1);
}

TARGET __m256i green_offset(__m256i cb, __m256i cr) {
  const __m256i factors = _mm256_set1_epi32(
      int32_t(uint32_t(uint16_t(kCbToGreen)) | uint32_t(uint16_t(kCrToGreen)) << 16));
  const __m256i half = _mm256_set1_epi32(1 << 15);
  const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), factors);
  const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), factors);
  return _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 16),
                            _mm256_srai_epi32(_mm256_add_epi32(high, half), 16));
}

// 16 pixels in 16-bit lanes.
TARGET Pixels convert(__m256i y, __m256i cb, __m256i cr) {
  const __m256i center = _mm256_set1_epi16(128);
  cb = _mm256_sub_epi16(cb, center);
  cr = _mm256_sub_epi16(cr, center);
  const __m256i red = _mm256_add_epi16(cr, multiply_round(cr, kCrToRed));
  const __m256i green = _mm256_sub_epi16(green_offset(cb, cr), cr);
  const __m256i blue = _mm256_add_epi16(_mm256_add_epi16(cb, cb), multiply_round(cb, kCbToBlue));
  return {_mm256_add_epi16(y, red), _mm256_add_epi16(y, green), _mm256_add_epi16(y, blue)};
}

// Low and high halves are taken by unpacking, which packing undoes: no lane is crossed.
TARGET Pixels ycc_pixels(const uint8_t* const rows[3], int i) {
  const __m256i y = load(rows[0] + i), cb = load(rows[1] + i), cr = load(rows[2] + i);
  const __m256i zero = _mm256_setzero_si256();
  const Pixels low = convert(_mm256_unpacklo_epi8(y, zero), _mm256_unpacklo_epi8(cb, zero),
                             _mm256_unpacklo_epi8(cr, zero));
  const Pixels high = convert(_mm256_unpackhi_epi8(y, zero), _mm256_unpackhi_epi8(cb, zero),
                              _mm256_unpackhi_epi8(cr, zero));
  return {_mm256_packus_epi16(low.r, high.r), _mm256_packus_epi16(low.g, high.g),
          _mm256_packus_epi16(low.b, high.b)};
}

template <ColorSpace color>
TARGET Pixels load_pixels(const uint8_t* const rows[3], int i) {
  if (color == ColorSpace::ycc) return ycc_pixels(rows, i);
  if (color == ColorSpace::rgb) return {load(rows[0] + i), load(rows[1] + i), load(rows[2] + i)};
  const __m256i grey = load(rows[0] + i);
  return {grey, grey, grey};
}

template <ColorSpace color>
PENSTOCK_TARGET_AVX2 void convert_avx2(const uint8_t* const rows[3], uint8_t* out, int n) {
  int i = 0;
  for (; i + 32 <= n; i += 32) store_interleaved(load_pixels<color>(rows, i), out + 3 * i);
  if (i < n) {
    uint8_t tail[96];
    store_interleaved(load_pixels<color>(rows, i), tail);
    std::memcpy(out + 3 * i, tail, size_t(3 * (n - i)));
  }
}

#undef TARGET
#endif

}  // namespace

ColorConverter color_converter(ColorSpace color) {
#if PENSTOCK_AVX2
  if (use_avx2()) {
    if (color == ColorSpace::ycc) return convert_avx2<ColorSpace::ycc>;
    if (color == ColorSpace::rgb) return convert_avx2<ColorSpace::rgb>;
    return convert_avx2<ColorSpace::grey>;
  }
#endif
  if (color == ColorSpace::ycc) return ycc_portable;
  if (color == ColorSpace::rgb) return rgb_portable;
  return grey_portable;
}

}  // namespace penstock
