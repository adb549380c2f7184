#include "jpeg_idct.h"

#include <algorithm>
#include <cstring>

#include "simd.h"

// The factors of the Loeffler-Ligtenberg-Moschytz algorithm with 13 fractional bits, as in
// libjpeg's jidctint.c, added up pairwise so that each output is a sum of two products.
namespace headrace {
namespace {

constexpr int kPass1Shift = 11;  // leaves 2 fractional bits between the passes
constexpr int kPass2Shift = 18;

// --- portable: one block, eight columns at a time in the compiler's vectors ---------------------

typedef uint16_t Half __attribute__((vector_size(16)));
typedef int16_t SignedHalf __attribute__((vector_size(16)));
typedef int32_t Word __attribute__((vector_size(32)));

inline void widen(const Half& half, Word& word) {
  word = __builtin_convertvector(SignedHalf(half), Word);
}

inline void descale(const Word& sum, int shift, Half& out) {
  Word value = (sum + (1 << (shift - 1))) >> shift;
  const Word high = value > 32767, low = value < -32768;
  value = (value & ~(high | low)) | (high & 32767) | (low & -32768);
  out = Half(__builtin_convertvector(value, SignedHalf));
}

void transform(Half (&row)[8], int shift) {
  Word in[8], sum, difference, z3, z4;
  for (int i = 1; i < 8; ++i) widen(row[i], in[i]);
  widen(row[0] + row[4], sum);
  widen(row[0] - row[4], difference);
  const Word even2 = in[2] * 4433 + in[6] * -10704;
  const Word even3 = in[2] * 10703 + in[6] * 4433;
  const Word t10 = sum * 8192 + even3, t13 = sum * 8192 - even3;
  const Word t11 = difference * 8192 + even2, t12 = difference * 8192 - even2;
  widen(row[7] + row[3], z3);
  widen(row[5] + row[1], z4);
  const Word odd3 = z3 * -6436 + z4 * 9633;
  const Word odd4 = z3 * 9633 + z4 * 6437;
  const Word t0 = in[7] * -4927 + in[1] * -7373 + odd3;
  const Word t1 = in[5] * -4176 + in[3] * -20995 + odd4;
  const Word t2 = in[5] * -20995 + in[3] * 4177 + odd3;
  const Word t3 = in[7] * -7373 + in[1] * 4926 + odd4;
  descale(t10 + t3, shift, row[0]);
  descale(t11 + t2, shift, row[1]);
  descale(t12 + t1, shift, row[2]);
  descale(t13 + t0, shift, row[3]);
  descale(t13 - t0, shift, row[4]);
  descale(t12 - t1, shift, row[5]);
  descale(t11 - t2, shift, row[6]);
  descale(t10 - t3, shift, row[7]);
}

void transpose(Half (&row)[8]) {
  uint16_t from[8][8], to[8][8];
  std::memcpy(from, row, sizeof from);
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x) to[x][y] = from[y][x];
  std::memcpy(row, to, sizeof to);
}

bool only_first_row(const int16_t* block) {
  return std::all_of(block + 8, block + 64, [](int16_t value) { return value == 0; });
}

void transform_block(int16_t* block, const int16_t* quant, uint8_t* out, size_t stride) {
  Half row[8], factor[8];
  std::memcpy(row, block, sizeof row);
  std::memcpy(factor, quant, sizeof factor);
  for (int y = 0; y < 8; ++y) row[y] *= factor[y];
  if (only_first_row(block)) {
    row[0] <<= 2;
    for (int y = 1; y < 8; ++y) row[y] = row[0];
  } else {
    transform(row, kPass1Shift);
  }
  transpose(row);
  transform(row, kPass2Shift);
  transpose(row);
  for (int y = 0; y < 8; ++y, out += stride) {
    for (int x = 0; x < 8; ++x)
      out[x] = uint8_t(std::clamp<int>(int16_t(row[y][x]), -128, 127) + 128);
  }
  std::memset(block, 0, 64 * sizeof(int16_t));
}

void inverse_dct_portable(int16_t* left, int16_t* right, const int16_t* quant, uint8_t* out,
                          size_t stride) {
  transform_block(left, quant, out, stride);
  transform_block(right, quant, out + 8, stride);
}

// --- AVX2: two blocks, one in each half of the registers ----------------------------------------

#if HEADRACE_AVX2

AVX2_INLINE __m256i factors(int16_t a, int16_t b) {
  return _mm256_set1_epi32(int32_t(uint32_t(uint16_t(a)) | uint32_t(uint16_t(b)) << 16));
}

// 32-bit sums for the lower and the upper four columns of both blocks.
struct Sums {
  __m256i low, high;
};

AVX2_INLINE Sums operator+(Sums a, Sums b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
AVX2_INLINE Sums operator-(Sums a, Sums b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

AVX2_INLINE Sums multiply_add(Sums pairs, __m256i factors) {
  return {_mm256_madd_epi16(pairs.low, factors), _mm256_madd_epi16(pairs.high, factors)};
}

AVX2_INLINE Sums interleave(__m256i a, __m256i b) {
  return {_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)};
}

// Sign-extended, times 2^13, plus the half that rounds: it gets into each output once.
template <int shift>
AVX2_INLINE Sums scale_up(__m256i a) {
  const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
  const Sums high = interleave(_mm256_setzero_si256(), a);
  return {_mm256_add_epi32(_mm256_srai_epi32(high.low, 3), half),
          _mm256_add_epi32(_mm256_srai_epi32(high.high, 3), half)};
}

template <int shift>
AVX2_INLINE __m256i scale_down(Sums sum) {
  return _mm256_packs_epi32(_mm256_srai_epi32(sum.low, shift), _mm256_srai_epi32(sum.high, shift));
}

// With `corner`, rows 4 to 7 are zero.
template <int shift, bool corner>
AVX2_INLINE void transform(__m256i (&row)[8]) {
  Sums even2, even3, t0, t1, t2, t3, odd3, odd4;
  const __m256i zero = _mm256_setzero_si256();
  const Sums sum = scale_up<shift>(corner ? row[0] : _mm256_add_epi16(row[0], row[4]));
  const Sums difference = corner ? sum : scale_up<shift>(_mm256_sub_epi16(row[0], row[4]));
  const Sums pair26 = interleave(row[2], corner ? zero : row[6]);
  even2 = multiply_add(pair26, factors(4433, -10704));
  even3 = multiply_add(pair26, factors(10703, 4433));
  const Sums pair31 = interleave(corner ? row[3] : _mm256_add_epi16(row[7], row[3]),
                                 corner ? row[1] : _mm256_add_epi16(row[5], row[1]));
  if (corner) {  // the products with rows 5 and 7 left out, the rest added up
    t0 = multiply_add(pair31, factors(-6436, 9633 - 7373));
    t1 = multiply_add(pair31, factors(9633 - 20995, 6437));
    t2 = multiply_add(pair31, factors(-6436 + 4177, 9633));
    t3 = multiply_add(pair31, factors(9633, 6437 + 4926));
  } else {
    odd3 = multiply_add(pair31, factors(-6436, 9633));
    odd4 = multiply_add(pair31, factors(9633, 6437));
    const Sums pair71 = interleave(row[7], row[1]), pair53 = interleave(row[5], row[3]);
    t0 = multiply_add(pair71, factors(-4927, -7373)) + odd3;
    t1 = multiply_add(pair53, factors(-4176, -20995)) + odd4;
    t2 = multiply_add(pair53, factors(-20995, 4177)) + odd3;
    t3 = multiply_add(pair71, factors(-7373, 4926)) + odd4;
  }
  const Sums t10 = sum + even3, t13 = sum - even3;
  const Sums t11 = difference + even2, t12 = difference - even2;
  row[0] = scale_down<shift>(t10 + t3);
  row[1] = scale_down<shift>(t11 + t2);
  row[2] = scale_down<shift>(t12 + t1);
  row[3] = scale_down<shift>(t13 + t0);
  row[4] = scale_down<shift>(t13 - t0);
  row[5] = scale_down<shift>(t12 - t1);
  row[6] = scale_down<shift>(t11 - t2);
  row[7] = scale_down<shift>(t10 - t3);
}

AVX2_INLINE __m256i dequantise(__m256i row, const int16_t* quant) {
  const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(quant));
  return _mm256_mullo_epi16(row, _mm256_broadcastsi128_si256(q));
}

AVX2_INLINE void clear_rows(int16_t* block, int begin, int end) {
  for (int y = begin; y < end; y += 2) store_bytes(block + 8 * y, _mm256_setzero_si256());
}

// Columns in, rows of bytes out: transposed after packing, when there is half as much to move.
AVX2_INLINE void store_columns(const __m256i (&column)[8], uint8_t* out, size_t stride) {
  const __m256i center = _mm256_set1_epi8(-128);
  __m256i half[2][2];  // [columns 0-3, 4-7][rows 0-3, 4-7]: four bytes of each row
  for (int i = 0; i < 2; ++i) {
    const __m256i even = _mm256_packs_epi16(column[4 * i], column[4 * i + 2]);
    const __m256i odd = _mm256_packs_epi16(column[4 * i + 1], column[4 * i + 3]);
    const __m256i first = _mm256_unpacklo_epi8(even, odd), second = _mm256_unpackhi_epi8(even, odd);
    half[i][0] = _mm256_unpacklo_epi16(first, second);
    half[i][1] = _mm256_unpackhi_epi16(first, second);
  }
  for (int y = 0; y < 8; y += 2, out += 2 * stride) {
    const __m256i a = half[0][y / 4], b = half[1][y / 4];
    __m256i rows = y % 4 == 0 ? _mm256_unpacklo_epi32(a, b) : _mm256_unpackhi_epi32(a, b);
    rows = _mm256_permute4x64_epi64(_mm256_add_epi8(rows, center), 0xD8);
    store_lanes(out, out + stride, rows);
  }
}

// `row` holds the coefficients; with `corner`, only the upper left 4x4 of them are not zero.
template <bool corner>
AVX2_INLINE void transform_pair(__m256i (&row)[8], int16_t* left, int16_t* right,
                                const int16_t* quant, uint8_t* out, size_t stride) {
  constexpr int rows = corner ? 4 : 8;
  for (int y = 0; y < rows; ++y) row[y] = dequantise(row[y], quant + 8 * y);
  // Beyond 8191 the result depends on whether the rows below are zero: see dc_sample.
  const __m256i excess = _mm256_subs_epu16(_mm256_add_epi16(row[0], _mm256_set1_epi16(8192)),
                                           _mm256_set1_epi16(16383));
  if (__builtin_expect(!_mm256_testz_si256(excess, excess), 0))
    return inverse_dct_portable(left, right, quant, out, stride);
  clear_rows(left, 0, rows);
  clear_rows(right, 0, rows);
  transform<kPass1Shift, corner>(row);
  transpose_lanes(row);
  transform<kPass2Shift, corner>(row);
  store_columns(row, out, stride);
}

// Rows below the first are zero: libjpeg-turbo's SIMD code shifts at 16 bits here, which wraps.
uint8_t dc_sample(int16_t coefficient, int16_t quant) {
  const auto scaled = int16_t(uint16_t(uint16_t(coefficient) * uint32_t(uint16_t(quant))) << 2);
  return uint8_t(std::clamp((scaled + 16) >> 5, -128, 127) + 128);
}

void fill_dc(uint8_t left, uint8_t right, uint8_t* out, size_t stride) {
  for (int y = 0; y < 8; ++y, out += stride) {
    std::memset(out, left, 8);
    std::memset(out + 8, right, 8);
  }
}

HEADRACE_TARGET_AVX2 void inverse_dct_avx2(int16_t* left, int16_t* right, const int16_t* quant,
                                           uint8_t* out, size_t stride) {
  const __m256i right_half = _mm256_setr_epi64x(0, -1, 0, -1);
  const __m256i but_dc = _mm256_setr_epi64x(~0xFFFFLL, -1, ~0xFFFFLL, -1);
  __m256i row[8];
  for (int y = 0; y < 8; ++y) row[y] = load_lanes(left + 8 * y, right + 8 * y);
  const __m256i middle = _mm256_or_si256(_mm256_or_si256(row[1], row[2]), row[3]);
  const __m256i below =
      _mm256_or_si256(_mm256_or_si256(row[4], row[5]), _mm256_or_si256(row[6], row[7]));
  const __m256i top = _mm256_or_si256(row[0], middle);
  if (!_mm256_testz_si256(_mm256_or_si256(below, _mm256_and_si256(top, right_half)),
                          _mm256_set1_epi8(-1))) {
    transform_pair<false>(row, left, right, quant, out, stride);
  } else if (!_mm256_testz_si256(_mm256_or_si256(middle, _mm256_and_si256(row[0], but_dc)),
                                 _mm256_set1_epi8(-1))) {
    transform_pair<true>(row, left, right, quant, out, stride);
  } else {
    fill_dc(dc_sample(left[0], quant[0]), dc_sample(right[0], quant[0]), out, stride);
    left[0] = right[0] = 0;
  }
}

#endif

}  // namespace

InverseDct inverse_dct() {
#if HEADRACE_AVX2
  if (use_avx2()) return inverse_dct_avx2;
#endif
  return inverse_dct_portable;
}

}  // namespace headrace
