// Rows of transformed pictures: where pixels come from, and what is seen there.
#pragma once

#include "../warp.h"
#include "vector.h"

namespace headrace {
namespace {

typedef double Doubles __attribute__((vector_size(32)));  // red, green, blue and anything
typedef int32_t Ints __attribute__((vector_size(16)));

// Four bytes.
HEADRACE_INLINE Doubles load_pixel(const uint8_t* pixel) {
#if HEADRACE_AVX2
  int32_t bytes;
  std::memcpy(&bytes, pixel, 4);
  return Doubles(_mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes))));
#else
  return Doubles{double(pixel[0]), double(pixel[1]), double(pixel[2]), 0.0};
#endif
}

// Writes the whole parts, which fit into bytes. The fourth byte may be anything.
HEADRACE_INLINE void store_pixel(uint8_t* out, Doubles levels) {
#if HEADRACE_AVX2
  const __m128i whole = _mm256_cvttpd_epi32(__m256d(levels));
  const int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(_mm_packus_epi32(whole, whole), whole));
  std::memcpy(out, &bytes, 4);
#else
  for (int c = 0; c < 3; ++c) out[c] = uint8_t(levels[c]);
#endif
}

HEADRACE_INLINE Doubles clip_levels(Doubles levels) {
  const Doubles least{}, most = least + 255.0;
  levels = levels > least ? levels : least;
  return levels < most ? levels : most;
}

constexpr int kPlaces = 128;
constexpr int32_t kOutside = -99;

// Where output pixels come from: the pixel at or before the place, and the distance from it.
struct Places {
  double dx[kPlaces], dy[kPlaces];
  int32_t x[kPlaces], y[kPlaces];  // x is kOutside if it does not lie in the source
};

// Finds the places of `count` pixels from (left, y) on, less `shift` on both axes.
template <bool perspective>
HEADRACE_INLINE void find_places(const Warp& warp, int32_t left, int32_t y, int count, double shift,
                                 Places& places) {
  const double *a = warp.coefficients, width = warp.width, height = warp.height;
  const double a0 = a[0], a2 = a[2], a3 = a[3], a5 = a[5], a6 = a[6], middle = y + 0.5;
  const double down_x = a[1] * middle, down_y = a[4] * middle, down = a[7] * middle;
  for (int i = 0; i < count; ++i) {
    const double across = double(left + i) + 0.5;
    double x_in = a0 * across + down_x + a2, y_in = a3 * across + down_y + a5;
    if (perspective) {
      const double depth = a6 * across + down + 1;
      x_in /= depth;
      y_in /= depth;
    }
    const bool inside = (x_in >= 0) & (x_in < width) & (y_in >= 0) & (y_in < height);
    x_in = inside ? x_in - shift : 0.0;  // also where it is not a number
    y_in = inside ? y_in - shift : 0.0;
    int32_t column = int32_t(x_in), row = int32_t(y_in);
    column -= x_in < column ? 1 : 0;
    row -= y_in < row ? 1 : 0;
    places.dx[i] = x_in - column;
    places.dy[i] = y_in - row;
    places.x[i] = inside ? column : kOutside;
    places.y[i] = row;
  }
}

HEADRACE_INLINE Doubles mix(Doubles from, Doubles to, double at) { return from + (to - from) * at; }

HEADRACE_INLINE Doubles mix_cubic(Doubles a, Doubles b, Doubles c, Doubles d, double at) {
  const Doubles second = c - a, third = 2.0 * (a - b) + c - d, fourth = b - a - c + d;
  return b + at * (second + at * (third + at * fourth));
}

struct Nearest {
  static constexpr double shift = 0.0;
  static HEADRACE_INLINE void draw(const uint8_t* in, size_t, double, double, uint8_t* out) {
    std::memcpy(out, in, HEADRACE_AVX2 ? 4 : 3);
  }
};

struct Bilinear {
  static constexpr double shift = 0.5;
  static HEADRACE_INLINE void draw(const uint8_t* in, size_t stride, double dx, double dy,
                                   uint8_t* out) {
    const Doubles upper = mix(load_pixel(in), load_pixel(in + 3), dx);
    const Doubles lower = mix(load_pixel(in + stride), load_pixel(in + stride + 3), dx);
    store_pixel(out, mix(upper, lower, dy));
  }
};

struct Bicubic {
  static constexpr double shift = 0.5;
  static HEADRACE_INLINE void draw(const uint8_t* in, size_t stride, double dx, double dy,
                                   uint8_t* out) {
    Doubles rows[4];
    in -= stride + 3;
    for (int i = 0; i < 4; ++i, in += stride)
      rows[i] =
          mix_cubic(load_pixel(in), load_pixel(in + 3), load_pixel(in + 6), load_pixel(in + 9), dx);
    store_pixel(out, clip_levels(mix_cubic(rows[0], rows[1], rows[2], rows[3], dy)));
  }
};

// Draws a row from left to right: what a pixel writes behind itself is overwritten by the next one.
template <typename Filter, bool perspective>
void warp_row_as(const Warp& warp, int32_t y, uint8_t* out, int32_t width) {
  Places places;
  for (int32_t left = 0; left < width; left += kPlaces) {
    const int count = std::min(kPlaces, width - left);
    find_places<perspective>(warp, left, y, count, Filter::shift, places);
    for (int i = 0; i < count; ++i, out += 3) {
      uint8_t last[4];
      uint8_t* to = left + i + 1 < width ? out : last;
      if (places.x[i] == kOutside)
        std::memcpy(to, warp.fill, 4);
      else
        Filter::draw(warp.pixels + ptrdiff_t(places.y[i]) * ptrdiff_t(warp.stride) +
                         ptrdiff_t(places.x[i]) * 3,
                     warp.stride, places.dx[i], places.dy[i], to);
      if (to == last) std::memcpy(out, last, 3);
    }
  }
}

template <typename Filter>
void warp_row(const Warp& warp, int32_t y, uint8_t* out, int32_t width) {
  if (warp.perspective)
    warp_row_as<Filter, true>(warp, y, out, width);
  else
    warp_row_as<Filter, false>(warp, y, out, width);
}

// Draws a row of nearest pixels. Those inside the source are neighbours: each axis has one stretch.
void warp_fixed(const Warp& warp, FixedPlace place, uint8_t* out, int32_t width) {
  const auto columns = uint32_t(warp.width) << 16, rows = uint32_t(warp.height) << 16;
  const bool tall = warp.width > 32767 || warp.height > 32767;
  const auto is_inside = [&](uint32_t x, uint32_t y) HEADRACE_INLINE_LAMBDA {
    if (tall)
      return int32_t(x) >= 0 && int32_t(y) >= 0 && int32_t(x >> 16) < warp.width &&
             int32_t(y >> 16) < warp.height;
    return x < columns && y < rows;
  };
  for (int32_t i = 0; i < width; ++i, out += 3, place.x += place.step_x, place.y += place.step_y) {
    const uint8_t* from = warp.fill;
    if (is_inside(place.x, place.y))
      from = warp.pixels + size_t(place.y >> 16) * warp.stride + size_t(place.x >> 16) * 3;
    std::memcpy(out, from, i + 1 < width ? 4 : 3);
  }
}

}  // namespace
}  // namespace headrace
