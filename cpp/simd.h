// Which instructions the hot loops use. Every variant gives the same bits.
#pragma once

#include <cstddef>

#if defined(__x86_64__) && defined(__GNUC__)
#define PENSTOCK_AVX2 1
#define PENSTOCK_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2")))
#else
#define PENSTOCK_AVX2 0
#endif

namespace penstock {

// How many bytes the hot loops may read past the end of a row, and write where they say so.
constexpr int kRowPadding = 64;

// Bytes that the hot loops over planar lines work on at once: no line ends in the middle of them.
constexpr size_t kLineUnit = 32;

// True when the CPU has AVX2 and BMI2 and the portable path is not forced.
bool use_avx2();

// For tests: take the portable path even where AVX2 is there.
void force_portable(bool portable);

}  // namespace penstock
