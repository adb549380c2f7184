// Dequantisation and inverse DCT of two blocks, one in each half of the vectors: bit-identical to
// libjpeg-turbo's SIMD version of JDCT_ISLOW, also where extreme coefficients wrap or saturate at
// 16 bits.
//
// The factors are those of the Loeffler-Ligtenberg-Moschytz algorithm with 13 fractional bits, as
// in libjpeg's jidctint.c, added up pairwise so that each output is a sum of two products.
#pragma once

#include <algorithm>

#include "vector.h"

namespace headrace {
namespace {

constexpr int kPass1Shift = 11;  // leaves 2 fractional bits between the passes
constexpr int kPass2Shift = 18;

HEADRACE_INLINE I16 factors(int16_t a, int16_t b) {
  return as<int16_t>(splat(int32_t(uint32_t(uint16_t(a)) | uint32_t(uint16_t(b)) << 16)));
}

// 32-bit sums for the lower and the upper four columns of both blocks.
struct ColumnSums {
  I32 low, high;
};

HEADRACE_INLINE ColumnSums operator+(ColumnSums a, ColumnSums b) {
  return {a.low + b.low, a.high + b.high};
}
HEADRACE_INLINE ColumnSums operator-(ColumnSums a, ColumnSums b) {
  return {a.low - b.low, a.high - b.high};
}

// Two rows side by side, to be multiplied by two factors.
struct RowsZipped {
  I16 low, high;

  HEADRACE_INLINE RowsZipped(I16 a, I16 b) : low(zip_low(a, b)), high(zip_high(a, b)) {}
  HEADRACE_INLINE ColumnSums multiply(int16_t a, int16_t b) const {
    return {multiply_add(low, factors(a, b)), multiply_add(high, factors(a, b))};
  }
};

// Sign-extends, multiplies by 2^13 and adds the half that rounds, which enters each output once.
template <int shift>
HEADRACE_INLINE ColumnSums scale_up(I16 a) {
  const I32 half = splat(int32_t(1) << (shift - 1));
  const RowsZipped high(I16{}, a);
  return {(as<int32_t>(high.low) >> 3) + half, (as<int32_t>(high.high) >> 3) + half};
}

template <int shift>
HEADRACE_INLINE I16 scale_down(ColumnSums sum) {
  return pack(sum.low >> shift, sum.high >> shift);
}

// With `corner`, rows 4 to 7 are zero.
template <int shift, bool corner>
HEADRACE_INLINE void transform(I16 (&row)[8]) {
  ColumnSums t0, t1, t2, t3;
  const ColumnSums sum = scale_up<shift>(corner ? row[0] : row[0] + row[4]);
  const ColumnSums difference = corner ? sum : scale_up<shift>(row[0] - row[4]);
  const RowsZipped rows26(row[2], corner ? I16{} : row[6]);
  const ColumnSums even2 = rows26.multiply(4433, -10704), even3 = rows26.multiply(10703, 4433);
  const RowsZipped rows31(corner ? row[3] : row[7] + row[3], corner ? row[1] : row[5] + row[1]);
  if (corner) {  // without the products of rows 5 and 7; the others are added up
    t0 = rows31.multiply(-6436, 9633 - 7373);
    t1 = rows31.multiply(9633 - 20995, 6437);
    t2 = rows31.multiply(-6436 + 4177, 9633);
    t3 = rows31.multiply(9633, 6437 + 4926);
  } else {
    const ColumnSums odd3 = rows31.multiply(-6436, 9633), odd4 = rows31.multiply(9633, 6437);
    const RowsZipped rows71(row[7], row[1]), rows53(row[5], row[3]);
    t0 = rows71.multiply(-4927, -7373) + odd3;
    t1 = rows53.multiply(-4176, -20995) + odd4;
    t2 = rows53.multiply(-20995, 4177) + odd3;
    t3 = rows71.multiply(-7373, 4926) + odd4;
  }
  const ColumnSums t10 = sum + even3, t13 = sum - even3;
  const ColumnSums t11 = difference + even2, t12 = difference - even2;
  row[0] = scale_down<shift>(t10 + t3);
  row[1] = scale_down<shift>(t11 + t2);
  row[2] = scale_down<shift>(t12 + t1);
  row[3] = scale_down<shift>(t13 + t0);
  row[4] = scale_down<shift>(t13 - t0);
  row[5] = scale_down<shift>(t12 - t1);
  row[6] = scale_down<shift>(t11 - t2);
  row[7] = scale_down<shift>(t10 - t3);
}

HEADRACE_INLINE void clear_rows(int16_t* block, int end) {
  for (int y = 0; y < end; y += 2) store(block + 8 * y, I16{});
}

// Stores columns as rows of bytes: transposed after packing, when there is half as much to move.
HEADRACE_INLINE void store_columns(const I16 (&column)[8], uint8_t* out, size_t stride) {
  I16 half[2][2];  // [columns 0-3, 4-7][rows 0-3, 4-7]: four bytes of each row
  for (int i = 0; i < 2; ++i) {
    const U8 even = as<uint8_t>(pack(column[4 * i], column[4 * i + 2]));
    const U8 odd = as<uint8_t>(pack(column[4 * i + 1], column[4 * i + 3]));
    const I16 first = as<int16_t>(zip_low(even, odd)), second = as<int16_t>(zip_high(even, odd));
    half[i][0] = zip_low(first, second);
    half[i][1] = zip_high(first, second);
  }
  for (int y = 0; y < 8; y += 2, out += 2 * stride) {
    const I32 a = as<int32_t>(half[0][y / 4]), b = as<int32_t>(half[1][y / 4]);
    const I32 rows = y % 4 == 0 ? zip_low(a, b) : zip_high(a, b);
    store_quarters(out, out + stride, as<uint8_t>(rows) + splat(uint8_t(128)));
  }
}

HEADRACE_INLINE I16 dequantise(I16 row, const int16_t* quant) {
  return row * load_halves<int16_t>(quant, quant);
}

template <bool corner>
HEADRACE_INLINE void finish_blocks(I16 (&row)[8], uint8_t* out, size_t stride) {
  transpose(row);
  transform<kPass2Shift, corner>(row);
  store_columns(row, out, stride);
}

// A coefficient of the first row beyond 8191 needs more than 16 bits after the first pass, which
// saturates them. But where the other rows are zero, libjpeg-turbo replaces that pass by a shift
// at 16 bits, which wraps.
__attribute__((noinline)) void transform_extreme(int16_t* left, int16_t* right,
                                                 const int16_t* quant, uint8_t* out,
                                                 size_t stride) {
  static constexpr int16_t kMasks[2][8] = {{}, {-1, -1, -1, -1, -1, -1, -1, -1}};
  const auto mask = [](const int16_t* block) {
    return kMasks[std::count(block + 8, block + 64, 0) == 56];
  };
  const I16 first_row_only = load_halves<int16_t>(mask(left), mask(right));
  I16 row[8];
  for (int y = 0; y < 8; ++y)
    row[y] = dequantise(load_halves<int16_t>(left + 8 * y, right + 8 * y), quant + 8 * y);
  const I16 wrapped = row[0] << 2;
  transform<kPass1Shift, false>(row);
  for (I16& in : row) in = select(first_row_only, wrapped, in);
  clear_rows(left, 8);
  clear_rows(right, 8);
  finish_blocks<false>(row, out, stride);
}

// `row` holds the coefficients; with `corner`, only the upper left 4x4 of them are not zero.
template <bool corner>
HEADRACE_INLINE void transform_blocks(I16 (&row)[8], int16_t* left, int16_t* right,
                                      const int16_t* quant, uint8_t* out, size_t stride) {
  constexpr int rows = corner ? 4 : 8;
  for (int y = 0; y < rows; ++y) row[y] = dequantise(row[y], quant + 8 * y);
  const I16 beyond_8191 = (row[0] + splat(int16_t(8192))) & splat(int16_t(0xC000));
  if (__builtin_expect(any(beyond_8191), 0))
    return transform_extreme(left, right, quant, out, stride);
  clear_rows(left, rows);
  clear_rows(right, rows);
  transform<kPass1Shift, corner>(row);
  finish_blocks<corner>(row, out, stride);
}

// The sample of a block that has only a DC coefficient: shifted at 16 bits, as above.
HEADRACE_INLINE uint8_t dc_sample(int16_t coefficient, int16_t quant) {
  const auto scaled = int16_t(uint16_t(uint16_t(coefficient) * uint32_t(uint16_t(quant))) << 2);
  return uint8_t(std::clamp((scaled + 16) >> 5, -128, 127) + 128);
}

void inverse_dct(int16_t* left, int16_t* right, const int16_t* quant, uint8_t* out, size_t stride) {
  alignas(32) static constexpr int64_t kRightHalf[] = {0, -1, 0, -1},
                                       kBesideDc[] = {~0xFFFFLL, -1, ~0xFFFFLL, -1};
  I16 row[8];
  for (int y = 0; y < 8; ++y) row[y] = load_halves<int16_t>(left + 8 * y, right + 8 * y);
  const I16 middle = row[1] | row[2] | row[3];
  const I16 below = (row[4] | row[5]) | (row[6] | row[7]);
  if (any(below | ((row[0] | middle) & load<int16_t>(kRightHalf)))) {
    transform_blocks<false>(row, left, right, quant, out, stride);
  } else if (any(middle | (row[0] & load<int16_t>(kBesideDc)))) {
    transform_blocks<true>(row, left, right, quant, out, stride);
  } else {
    const uint8_t samples[] = {dc_sample(left[0], quant[0]), dc_sample(right[0], quant[0])};
    for (int y = 0; y < 8; ++y, out += stride) {
      std::memset(out, samples[0], 8);
      std::memset(out + 8, samples[1], 8);
    }
    left[0] = right[0] = 0;
  }
}

}  // namespace
}  // namespace headrace
