// Rows of transformed pictures: where pixels come from, and what is seen there.
#pragma once

#include "../warp.h"
#include "vector.h"

namespace headrace {
namespace {

using Doubles = Vector<double>;  // red, green, blue and anything

// Four bytes.
HEADRACE_INLINE Doubles load_pixel(const uint8_t* pixel) {
#if HEADRACE_AVX2
  int32_t bytes;
  std::memcpy(&bytes, pixel, 4);
  return {Register<double>(_mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes))))};
#else
  Doubles loaded;
  loaded.lower = Register<double>{double(pixel[0]), double(pixel[1])};
  loaded.upper = Register<double>{double(pixel[2]), 0.0};
  return loaded;
#endif
}

// Writes the whole parts, which fit into bytes. The fourth byte may be anything.
HEADRACE_INLINE void store_pixel(uint8_t* out, Doubles levels) {
#if HEADRACE_AVX2
  const __m128i whole = _mm256_cvttpd_epi32(__m256d(levels.whole));
  const int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(_mm_packus_epi32(whole, whole), whole));
  std::memcpy(out, &bytes, 4);
#else
  out[0] = uint8_t(levels.lower[0]);
  out[1] = uint8_t(levels.lower[1]);
  out[2] = uint8_t(levels.upper[0]);
#endif
}

HEADRACE_INLINE Doubles clip_levels(Doubles levels) {
  const auto clip = [=](auto level) HEADRACE_INLINE_LAMBDA {
    const Register<double> least{}, most = least + 255.0;
    level = level > least ? level : least;
    return level < most ? level : most;
  };
  return each<double>(clip, levels);
}

HEADRACE_INLINE Doubles mix(Doubles from, Doubles to, double at) {
  return each<double>([=](auto a, auto b) HEADRACE_INLINE_LAMBDA { return a + (b - a) * at; }, from,
                      to);
}

HEADRACE_INLINE Doubles mix_cubic(Doubles first, Doubles second, Doubles third, Doubles fourth,
                                  double at) {
  const auto mixed = [=](auto a, auto b, auto c, auto d) HEADRACE_INLINE_LAMBDA {
    return b + at * (c - a + at * (2.0 * (a - b) + c - d + at * (b - a - c + d)));
  };
  return each<double>(mixed, first, second, third, fourth);
}

constexpr int kPlaces = 128;
constexpr double kOutside = -99;

// Where output pixels come from: the pixel at or before the place, and the distance from it.
struct Places {
  double x[kPlaces], y[kPlaces];  // x is kOutside if it does not lie in the source
  double dx[kPlaces], dy[kPlaces];
};

// Writes the integers at or below places, and the distances from them.
HEADRACE_INLINE void split(Doubles place, double* whole, double* rest) {
  const auto find_floor = [=](auto x) HEADRACE_INLINE_LAMBDA {
    constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: sums with it are whole
    const auto nearest = (x + kRound) - kRound;
    return nearest - (nearest > x ? Register<double>{} + 1.0 : Register<double>{});
  };
  const Doubles floor = each<double>(find_floor, place);
  store(whole, floor);
  store(rest,
        each<double>([=](auto x, auto f) HEADRACE_INLINE_LAMBDA { return x - f; }, place, floor));
}

// Finds the places of `count` pixels from (left, row) on, less `shift` on both axes.
template <bool perspective>
HEADRACE_INLINE void find_places(const Warp& warp, int32_t left, int32_t row, int count,
                                 double shift, Places& places) {
  using Lanes = Register<double>;
  const double *a = warp.coefficients, width = warp.width, height = warp.height;
  const double middle = row + 0.5, down_x = a[1] * middle, down_y = a[4] * middle;
  const double down = a[7] * middle;
  const auto over = [=](Lanes along, Lanes across) HEADRACE_INLINE_LAMBDA {
    return perspective ? along / (a[6] * across + down + 1.0) : along;
  };
  const auto move = [=](Lanes x, Lanes y, Lanes place) HEADRACE_INLINE_LAMBDA {
    const auto inside = (x >= 0.0) & (x < width) & (y >= 0.0) & (y < height);  // NaN is not
    return inside ? place - shift : Lanes{} + kOutside;
  };
  for (int i = 0; i < count; i += 4) {
    const double centers[4] = {left + i + 0.5, left + i + 1.5, left + i + 2.5, left + i + 3.5};
    const Doubles across = load<double>(centers);
    const Doubles x = each<double>(
        [=](auto at) HEADRACE_INLINE_LAMBDA { return over(a[0] * at + down_x + a[2], at); },
        across);
    const Doubles y = each<double>(
        [=](auto at) HEADRACE_INLINE_LAMBDA { return over(a[3] * at + down_y + a[5], at); },
        across);
    split(each<double>(move, x, y, x), places.x + i, places.dx + i);
    split(each<double>(move, x, y, y), places.y + i, places.dy + i);
  }
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
        Filter::draw(warp.pixels + ptrdiff_t(int32_t(places.y[i])) * ptrdiff_t(warp.stride) +
                         ptrdiff_t(int32_t(places.x[i])) * 3,
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

// Draws `count` nearest pixels, which all lie in the source.
template <typename Offset>
HEADRACE_INLINE void draw_fixed(const Warp& warp, FixedPlace place, uint8_t* out, int32_t count) {
  const auto stride = Offset(warp.stride);
  for (int32_t begin = 0; begin < count; begin += kPlaces) {
    Offset offsets[kPlaces];
    for (uint32_t i = 0; i < kPlaces; ++i) {
      const uint32_t steps = uint32_t(begin) + i;
      offsets[i] = Offset((place.y + steps * place.step_y) >> 16) * stride +
                   Offset((place.x + steps * place.step_x) >> 16) * 3;
    }
    const int32_t end = std::min(kPlaces, count - begin);
    for (int32_t i = 0; i < end - 1; ++i, out += 3) std::memcpy(out, warp.pixels + offsets[i], 4);
    std::memcpy(out, warp.pixels + offsets[end - 1], 3);
    out += 3;
  }
}

// Draws a row of nearest pixels. Those that lie in the source are next to each other.
void warp_fixed(const Warp& warp, FixedPlace place, uint8_t* out, int32_t width) {
  // Places beyond 2^31 are negative.
  const uint32_t columns = uint32_t(std::min(warp.width, 32768)) << 16;
  const uint32_t rows = uint32_t(std::min(warp.height, 32768)) << 16;
  const auto is_inside = [=](int32_t i) HEADRACE_INLINE_LAMBDA {
    const auto steps = uint32_t(i);
    return place.x + steps * place.step_x < columns && place.y + steps * place.step_y < rows;
  };
  int32_t begin = 0, end = width;
  for (; begin < end && !is_inside(begin); ++begin) std::memcpy(out + begin * 3, warp.fill, 3);
  for (; begin < end && !is_inside(end - 1); --end) std::memcpy(out + (end - 1) * 3, warp.fill, 3);
  if (begin == end) return;
  place.x += uint32_t(begin) * place.step_x;
  place.y += uint32_t(begin) * place.step_y;
  if (warp.stride * size_t(warp.height) <= UINT32_MAX)
    draw_fixed<uint32_t>(warp, place, out + begin * 3, end - begin);
  else
    draw_fixed<size_t>(warp, place, out + begin * 3, end - begin);
}

}  // namespace
}  // namespace headrace
