// Rows of transformed pictures: where pixels come from, and what is seen there.
#pragma once

#include "../warp.h"
#include "vector.h"
#include "warp_cubic.h"

namespace headrace {
namespace {

constexpr int64_t kOutside = INT64_MIN;

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

// The whole parts, clipped to bytes. The fourth byte may be anything.
HEADRACE_INLINE uint32_t to_pixel(Doubles levels) {
#if HEADRACE_AVX2
  const __m128i whole = _mm256_cvttpd_epi32(__m256d(levels.whole));
  return uint32_t(_mm_cvtsi128_si32(_mm_packus_epi16(_mm_packs_epi32(whole, whole), whole)));
#else
  const auto clip = [](double level) { return uint8_t(std::clamp(int(level), 0, 255)); };
  const uint8_t bytes[4] = {clip(levels.lower[0]), clip(levels.lower[1]), clip(levels.upper[0])};
  uint32_t pixel;
  std::memcpy(&pixel, bytes, 4);
  return pixel;
#endif
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

// Where output pixels come from.
struct Places {
  int64_t offsets[kPlaces];         // of the pixel at or before the place; or kOutside
  double dx[kPlaces], dy[kPlaces];  // the distance from it, from 0 to 1
  bool moves_x, moves_y;            // false if all of these distances are 0
};

constexpr double kFloorUnit = 6755399441055744.0;  // 1.5 * 2^52: sums with it are whole

HEADRACE_INLINE Doubles find_floor(Doubles place) {
  const auto find = [=](auto x) HEADRACE_INLINE_LAMBDA {
    const auto nearest = (x + kFloorUnit) - kFloorUnit;
    return nearest - (nearest > x ? Register<double>{} + 1.0 : Register<double>{});
  };
  return each<double>(find, place);
}

// Writes the distances from the integers below. Returns which are not 0, added to `moved`.
HEADRACE_INLINE Doubles write_rest(Doubles place, Doubles floor, double* rest, Doubles moved) {
  const Doubles distance =
      each<double>([=](auto x, auto f) HEADRACE_INLINE_LAMBDA { return x - f; }, place, floor);
  store(rest, distance);
  return as<double>(as<int64_t>(moved) | as<int64_t>(distance));
}

HEADRACE_INLINE void write_offsets(Doubles x, Doubles y, double stride, int64_t* offsets) {
  const auto locate = [=](auto column, auto row) HEADRACE_INLINE_LAMBDA {
    return (row * stride + column * 3.0) + kFloorUnit;
  };
  const auto unit = as<int64_t>(splat(kFloorUnit));
  store(offsets, as<int64_t>(each<double>(locate, x, y)) - unit);
}

// Finds the places of `count` pixels from (left, row) on, less `shift` on both axes.
template <bool perspective>
HEADRACE_INLINE void find_places(const Warp& warp, int32_t left, int32_t row, int count,
                                 double shift, Places& places) {
  using Lanes = Register<double>;
  const double *a = warp.coefficients, width = warp.width, height = warp.height;
  const double middle = row + 0.5, down_x = a[1] * middle, down_y = a[4] * middle;
  const double down = a[7] * middle, stride = double(warp.stride);
  const auto over = [=](Lanes along, Lanes across) HEADRACE_INLINE_LAMBDA {
    return perspective ? along / (a[6] * across + down + 1.0) : along;
  };
  const auto is_inside = [=](Lanes x, Lanes y) HEADRACE_INLINE_LAMBDA {
    return (x >= 0.0) & (x < width) & (y >= 0.0) & (y < height);  // NaN is not
  };
  const auto move = [=](auto inside, Lanes place)
                        HEADRACE_INLINE_LAMBDA { return inside ? place - shift : Lanes{}; };
  Doubles moved_x{}, moved_y{};
  for (int i = 0; i < count; i += 4) {
    const double centers[4] = {left + i + 0.5, left + i + 1.5, left + i + 2.5, left + i + 3.5};
    const Doubles across = load<double>(centers);
    Doubles x = each<double>(
        [=](auto at) HEADRACE_INLINE_LAMBDA { return over(a[0] * at + down_x + a[2], at); },
        across);
    Doubles y = each<double>(
        [=](auto at) HEADRACE_INLINE_LAMBDA { return over(a[3] * at + down_y + a[5], at); },
        across);
    const auto inside = each<int64_t>(is_inside, x, y);
    x = each<double>(move, inside, x);
    y = each<double>(move, inside, y);
    const Doubles column = find_floor(x), line = find_floor(y);
    moved_x = write_rest(x, column, places.dx + i, moved_x);
    moved_y = write_rest(y, line, places.dy + i, moved_y);
    write_offsets(column, line, stride, places.offsets + i);
    store(places.offsets + i, select(inside, load<int64_t>(places.offsets + i), splat(kOutside)));
  }
  places.moves_x = any(as<int64_t>(moved_x));
  places.moves_y = any(as<int64_t>(moved_y));
}

// Writes pixels draw(where it comes from, number), or the colour outside of the source.
template <typename Draw>
HEADRACE_INLINE void draw_each(const Warp& warp, const Places& places, int count, uint8_t* out,
                               Draw draw) {
  uint32_t fill;
  std::memcpy(&fill, warp.fill, 4);
  for (int i = 0; i < count; ++i, out += 3) {
    const int64_t offset = places.offsets[i];
    const uint32_t pixel = offset == kOutside ? fill : draw(warp.pixels + offset, i);
    std::memcpy(out, &pixel, i + 1 < count ? 4 : 3);  // the next one overwrites the fourth byte
  }
}

struct Nearest {
  static constexpr double shift = 0.0;
  static HEADRACE_INLINE void draw(const Warp& warp, const Places& places, int count,
                                   uint8_t* out) {
    draw_each(warp, places, count, out, [=](const uint8_t* in, int) HEADRACE_INLINE_LAMBDA {
      uint32_t pixel;
      std::memcpy(&pixel, in, 4);
      return pixel;
    });
  }
};

// A distance of 0 gives exactly the pixel before the place: what lies behind is not needed.
struct Bilinear {
  static constexpr double shift = 0.5;
  static HEADRACE_INLINE Doubles mix_two(const uint8_t* in, size_t step, double at) {
    return mix(load_pixel(in), load_pixel(in + step), at);
  }
  static HEADRACE_INLINE void draw(const Warp& warp, const Places& places, int count,
                                   uint8_t* out) {
    const size_t stride = warp.stride;
    const auto draw_line = [&](const uint8_t* in, int i) HEADRACE_INLINE_LAMBDA {
      return to_pixel(mix_two(in, 3, places.dx[i]));
    };
    const auto draw_column = [&](const uint8_t* in, int i) HEADRACE_INLINE_LAMBDA {
      return to_pixel(mix_two(in, stride, places.dy[i]));
    };
    const auto draw_both = [&](const uint8_t* in, int i) HEADRACE_INLINE_LAMBDA {
      const double dx = places.dx[i];
      return to_pixel(mix(mix_two(in, 3, dx), mix_two(in + stride, 3, dx), places.dy[i]));
    };
    if (!places.moves_y) return draw_each(warp, places, count, out, draw_line);
    if (!places.moves_x) return draw_each(warp, places, count, out, draw_column);
    draw_each(warp, places, count, out, draw_both);
  }
};

struct Bicubic {
  static constexpr double shift = 0.5;
  static HEADRACE_INLINE Doubles mix_four(const uint8_t* in, size_t step, double at) {
    return mix_cubic(load_pixel(in - step), load_pixel(in), load_pixel(in + step),
                     load_pixel(in + 2 * step), at);
  }
  static HEADRACE_INLINE uint32_t draw_exactly(const uint8_t* in, size_t stride, double dx,
                                               double dy) {
    Doubles rows[4];
    in -= stride;
    for (int i = 0; i < 4; ++i, in += stride) rows[i] = mix_four(in, 3, dx);
    return to_pixel(mix_cubic(rows[0], rows[1], rows[2], rows[3], dy));
  }
  static HEADRACE_INLINE void draw(const Warp& warp, const Places& places, int count,
                                   uint8_t* out) {
    const size_t stride = warp.stride;
    const auto draw_line = [&](const uint8_t* in, int i) HEADRACE_INLINE_LAMBDA {
      return to_pixel(mix_four(in, 3, places.dx[i]));
    };
    const auto draw_column = [&](const uint8_t* in, int i) HEADRACE_INLINE_LAMBDA {
      return to_pixel(mix_four(in, stride, places.dy[i]));
    };
    if (!places.moves_y) return draw_each(warp, places, count, out, draw_line);
    if (!places.moves_x) return draw_each(warp, places, count, out, draw_column);
    CubicWeights across, down;
    find_weights(places.dx, count, across);
    find_weights(places.dy, count, down);
    const auto draw_both = [&](const uint8_t* in, int i) HEADRACE_INLINE_LAMBDA {
      const Bounds bounds = guess_cubic(in - stride - 3, stride, across, down, i);
      if (bounds.least == bounds.most) return bounds.least;
      if (is_even(in - stride - 3, stride, bounds.least ^ bounds.most)) return bounds.most;
      return draw_exactly(in, stride, places.dx[i], places.dy[i]);
    };
    draw_each(warp, places, count, out, draw_both);
  }
};

template <typename Filter, bool perspective>
void warp_row_as(const Warp& warp, int32_t y, uint8_t* out, int32_t width) {
  Places places;
  for (int32_t left = 0; left < width; left += kPlaces) {
    const int count = std::min(kPlaces, width - left);
    find_places<perspective>(warp, left, y, count, Filter::shift, places);
    Filter::draw(warp, places, count, out + size_t(left) * 3);
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
