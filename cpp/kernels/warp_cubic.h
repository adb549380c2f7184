// Bicubic pixels in float, with bounds of the error: those whose level is thereby not certain are
// computed again in double, as Pillow does it.
#pragma once

#include "vector.h"

namespace headrace {
namespace {

constexpr int kPlaces = 128;  // pixels that are drawn at a time

using Floats = Vector<float>;

// The weights of four pixels at places between the second and the third.
struct CubicWeights {
  float of[4][kPlaces];
};

inline void find_weights(const double* places, int count, CubicWeights& weights) {
  for (int i = 0; i < count; ++i) {
    const auto t = float(places[i]);
    weights.of[0][i] = t * (t * (2.0f - t) - 1.0f);
    weights.of[1][i] = t * t * (t - 2.0f) + 1.0f;
    weights.of[2][i] = t * (t * (1.0f - t) + 1.0f);
    weights.of[3][i] = t * t * (t - 1.0f);
  }
}

HEADRACE_INLINE Floats operator+(Floats a, Floats b) {
  return each<float>([=](auto x, auto y) HEADRACE_INLINE_LAMBDA { return x + y; }, a, b);
}

HEADRACE_INLINE Floats operator*(Floats a, Floats b) {
  return each<float>([=](auto x, auto y) HEADRACE_INLINE_LAMBDA { return x * y; }, a, b);
}

// a * b + c; the product may be rounded or not.
HEADRACE_INLINE Floats add_product(Floats a, Floats b, Floats c) {
#if HEADRACE_AVX2
  return {Register<float>(_mm256_fmadd_ps(__m256(a.whole), __m256(b.whole), __m256(c.whole)))};
#else
  return a * b + c;
#endif
}

// Two of the RGB pixels that both halves hold, one in each half.
HEADRACE_INLINE Floats widen_two(U8 pixels, int first) {
  uint8_t places[kVectorBytes];
  for (int i = 0; i < int(kVectorBytes); ++i)
    places[i] = uint8_t(i % 4 == 0 && i % 16 < 12 ? (first + i / 16) * 3 + i % 16 / 4 : 0x80);
  return each<float>(
      [=](auto x) HEADRACE_INLINE_LAMBDA { return __builtin_convertvector(x, Register<float>); },
      as<int32_t>(shuffle(pixels, load<uint8_t>(places))));
}

HEADRACE_INLINE Floats splat_halves(float lower, float upper) {
#if HEADRACE_AVX2
  return {Register<float>(_mm256_blend_ps(_mm256_set1_ps(lower), _mm256_set1_ps(upper), 0xF0))};
#else
  return {Register<float>{} + lower, Register<float>{} + upper};
#endif
}

HEADRACE_INLINE Floats swap_halves(Floats in) {
#if HEADRACE_AVX2
  return {Register<float>(_mm256_permute2f128_ps(__m256(in.whole), __m256(in.whole), 1))};
#else
  return {in.upper, in.lower};
#endif
}

// Levels of red, green and blue, between which the exact ones lie; the fourth byte is zero.
struct Bounds {
  uint32_t least, most;
};

// The whole parts, clipped to bytes: the least of the lower half, the most of the upper one.
HEADRACE_INLINE Bounds to_bounds(Floats levels) {
  const I32 whole = each<int32_t>(
      [=](auto x) HEADRACE_INLINE_LAMBDA { return __builtin_convertvector(x, Register<int32_t>); },
      levels);
  const I16 narrow = pack(whole, whole);
  const auto pixels = as<uint32_t>(pack_unsigned(narrow, narrow));
#if HEADRACE_AVX2
  return {pixels.whole[0], pixels.whole[4]};
#else
  return {pixels.lower[0], pixels.upper[0]};
#endif
}

// Weighs four by four pixels from `in` on. The error of float is below 2^-24 * 255 * 80: weights
// have an error of 2^-22, and the sum of their absolute values is at most 1.5 on an axis.
HEADRACE_INLINE Bounds guess_cubic(const uint8_t* in, size_t stride, const CubicWeights& across,
                                   const CubicWeights& down, int i) {
  constexpr float kError = 1.0f / 512;
  Floats left{}, right{};
  for (int line = 0; line < 4; ++line, in += stride) {
    const U8 pixels = load_halves<uint8_t>(in, in);
    const Floats weight = splat_halves(down.of[line][i], down.of[line][i]);
    left = add_product(widen_two(pixels, 0), weight, left);
    right = add_product(widen_two(pixels, 2), weight, right);
  }
  const Floats sums = left * splat_halves(across.of[0][i], across.of[1][i]) +
                      right * splat_halves(across.of[2][i], across.of[3][i]);
  return to_bounds(sums + swap_halves(sums) + splat_halves(-kError, kError));
}

// Returns true if four by four pixels are equal in the channels whose bytes are set in `mask`: what
// lies between them has the same level.
inline bool is_even(const uint8_t* in, size_t stride, uint32_t mask) {
  uint32_t first, differences = 0;
  std::memcpy(&first, in, 4);
  for (int line = 0; line < 4; ++line, in += stride)
    for (int column = 0; column < 4; ++column) {
      uint32_t pixel;
      std::memcpy(&pixel, in + column * 3, 4);
      differences |= pixel ^ first;
    }
  for (uint32_t byte = 0xFF; byte != 0; byte <<= 8)
    if ((mask & byte) != 0 && (differences & byte) != 0) return false;
  return true;
}

}  // namespace
}  // namespace headrace
