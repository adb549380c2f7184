// Rows of samples brought to full size by libjpeg's "fancy" triangle filters, 32 samples at a time.
#pragma once

#include "vector.h"

namespace headrace {
namespace {

// 16-bit sums for the lower and the upper eight samples of each half.
struct SampleSums {
  I16 low, high;
};

// 3 near + far
HEADRACE_INLINE SampleSums weigh(const uint8_t* near, const uint8_t* far) {
  const U8 a = load<uint8_t>(near), b = load<uint8_t>(far);
  const I8 by = as<int8_t>(splat(uint16_t(3 | 1 << 8)));
  return {multiply_add(zip_low(a, b), by), multiply_add(zip_high(a, b), by)};
}

// 3 near + far of such sums
HEADRACE_INLINE SampleSums weigh(SampleSums near, SampleSums far) {
  return {near.low + (near.low << 1) + far.low, near.high + (near.high << 1) + far.high};
}

HEADRACE_INLINE SampleSums round(SampleSums sums, int bias, int shift) {
  const I16 half = splat(int16_t(bias));
  return {(sums.low + half) >> shift, (sums.high + half) >> shift};
}

// Even and odd samples, alternating.
HEADRACE_INLINE void store_pairs(uint8_t* out, SampleSums even, SampleSums odd) {
  store_halves(out, out + 32, even.low | (odd.low << 8));
  store_halves(out + 16, out + 48, even.high | (odd.high << 8));
}

void upsample_h2(const uint8_t* in, uint8_t* out, int n) {
  for (int i = 0; i < n; i += 32, in += 32)
    store_pairs(out + 2 * i, round(weigh(in, in - 1), 1, 2), round(weigh(in, in + 1), 2, 2));
}

void upsample_v2(const uint8_t* near, const uint8_t* far, uint8_t* out, int n, int bias) {
  for (int i = 0; i < n; i += 32) {
    const SampleSums sums = round(weigh(near + i, far + i), bias, 2);
    store(out + i, pack_unsigned(sums.low, sums.high));
  }
}

void upsample_h2v2(const uint8_t* near, const uint8_t* far, uint8_t* out, int n) {
  for (int i = 0; i < n; i += 32, near += 32, far += 32) {
    const SampleSums here = weigh(near, far);
    const SampleSums left = weigh(near - 1, far - 1), right = weigh(near + 1, far + 1);
    store_pairs(out + 2 * i, round(weigh(here, left), 8, 4), round(weigh(here, right), 7, 4));
  }
}

}  // namespace
}  // namespace headrace
