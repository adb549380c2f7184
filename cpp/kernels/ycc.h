// Converts lines of full-size YCbCr to lines of RGB, with libjpeg's rounding.
#pragma once

#include "vector.h"

namespace headrace {
namespace {

// libjpeg's factors have 16 fractional bits. These have 14 for red and blue, 15 for green, which
// give the same levels for all samples.
constexpr int16_t kCrToRed = 22970, kCbToBlue = 29033;  // green: -11277 of Cb, -23401 of Cr

struct Levels {
  I16 red, green, blue;
};

// The bytes `first` and `second`, alternating.
HEADRACE_INLINE I8 byte_factors(int first, int second) {
  return as<int8_t>(splat(uint16_t((first & 0xFF) | (second & 0xFF) << 8)));
}

// The sum of products for green has more than 16 bits: it is 256 high + low, with the factors
// -11277 = 256 * -44 - 13 and -23401 = 256 * 37 - 105 - 32768, whose last term is subtracted
// separately. Samples are not centred here; 955 makes up for that.
HEADRACE_INLINE I16 green_offset(U8 cb_cr, I16 twice_cr) {
  const I16 high = multiply_add(cb_cr, byte_factors(-44, 37));
  const I16 low = multiply_add(cb_cr, byte_factors(-13, -105));
  const I16 sum = high + (low >> 8) + splat(int16_t(955));
  return multiply_round(sum - (twice_cr << 6), splat(int16_t(1 << 8)));
}

// 16 pixels, from bytes zipped with 0 (luma) or 128 (chroma), and from both chroma bytes zipped.
HEADRACE_INLINE Levels convert(U8 y, U8 cb, U8 cr, U8 cb_cr) {
  const I16 luma = as<int16_t>(y);
  const I16 twice_cb = multiply_add(cb, byte_factors(2, -2));
  const I16 twice_cr = multiply_add(cr, byte_factors(2, -2));
  return {luma + multiply_round(twice_cr, splat(kCrToRed)), luma + green_offset(cb_cr, twice_cr),
          luma + multiply_round(twice_cb, splat(kCbToBlue))};
}

void convert_ycc(const uint8_t* const in[3], uint8_t* out, size_t line, int n) {
  const U8 zero{}, center = splat(uint8_t(128));
  const uint8_t *luma = in[0], *blueness = in[1], *redness = in[2];
  for (int i = 0; i < n; i += int(kLineUnit), out += kLineUnit) {
    const U8 y = load<uint8_t>(luma + i), cb = load<uint8_t>(blueness + i),
             cr = load<uint8_t>(redness + i);
    const Levels low =
        convert(zip_low(y, zero), zip_low(cb, center), zip_low(cr, center), zip_low(cb, cr));
    const Levels high =
        convert(zip_high(y, zero), zip_high(cb, center), zip_high(cr, center), zip_high(cb, cr));
    store(out, pack_unsigned(low.red, high.red));
    store(out + line, pack_unsigned(low.green, high.green));
    store(out + 2 * line, pack_unsigned(low.blue, high.blue));
  }
}

}  // namespace
}  // namespace headrace
