// Random words, and normal variables of them. Every target rounds alike, since all operations are
// exact ones of IEEE 754 in the same order.
#pragma once

#include <cmath>

#include "vector.h"

namespace headrace {
namespace {

using U64 = Vector<uint64_t>;

// The products of the lower 32 bits.
DEFINE(multiply_words, uint64_t, uint64_t, uint64_t,
       BY_TARGET(X86(mul_epu32), vmull_u32(vmovn_u64(a), vmovn_u64(b)),
                 (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF)))
DEFINE(flip_bits, uint64_t, uint64_t, uint64_t, a ^ b)

// Draws three words for each of four counters: Philox4x32-10 of Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3" (2011). Only the lower 32 bits of elements count.
HEADRACE_INLINE void draw_four(uint64_t counter, uint64_t key, uint32_t* out) {
  const uint64_t counters[4] = {counter, counter + 1, counter + 2, counter + 3};
  U64 words[4] = {load<uint64_t>(counters), load<uint64_t>(counters) >> 32};
  auto low = uint32_t(key), high = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round, low += 0x9E3779B9, high += 0xBB67AE85) {
    const U64 first = multiply_words(words[0], splat(uint64_t(0xD2511F53)));
    const U64 second = multiply_words(words[2], splat(uint64_t(0xCD9E8D57)));
    words[0] = flip_bits(flip_bits(second >> 32, words[1]), splat(uint64_t(low)));
    words[1] = second;
    words[2] = flip_bits(flip_bits(first >> 32, words[3]), splat(uint64_t(high)));
    words[3] = first;
  }
  uint64_t drawn[3][4];
  for (int c = 0; c < 3; ++c) store(drawn[c], words[c]);
  for (int i = 0; i < 12; ++i) out[i] = uint32_t(drawn[i % 3][i / 3]);
}

void draw_noise(uint64_t counter, size_t count, uint64_t key, uint32_t* words) {
  for (; count >= 4; count -= 4, counter += 4, words += 12) draw_four(counter, key, words);
  uint32_t last[12];
  if (count == 0) return;
  draw_four(counter, key, last);
  std::copy_n(last, count * 3, words);
}

HEADRACE_INLINE Register<double> find_roots(Register<double> in) {
#if HEADRACE_AVX2
  return Register<double>(_mm256_sqrt_pd(__m256d(in)));
#elif defined(__SSE2__)
  return Register<double>(_mm_sqrt_pd(__m128d(in)));
#else
  return Register<double>{std::sqrt(in[0]), std::sqrt(in[1])};
#endif
}

// The natural logarithms of normal numbers below 1, by the series of atanh.
HEADRACE_INLINE Register<double> find_logs(Register<double> in) {
  constexpr uint64_t kMantissa = 0xFFFFFFFFFFFFF, kHalf = uint64_t(1022) << 52;
  constexpr uint64_t kWhole = uint64_t(1075) << 52;  // 2^52: integers below become its last bits
  const auto bits = Register<uint64_t>(in);
  const auto exponent = Register<double>((bits >> 52) | kWhole) - (4503599627370496.0 + 1022);
  const auto mantissa = Register<double>((bits & kMantissa) | kHalf);  // from 0.5 to 1
  const auto z = (mantissa - 0.75) / (mantissa + 0.75), square = z * z;
  Register<double> sum{};
  for (int k = 13; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * z * sum + (exponent * 0.69314718055994530942 - 0.28768207245178092744);
}

// Algorithm AS 241 (PPND7) of Wichura, "The percentage points of the normal distribution" (1988):
// of probabilities from 0.075 to 0.925, and of others. Words are never so close to 0 or 1 that its
// third formula is needed.
HEADRACE_INLINE Register<double> find_middle(Register<double> words) {
  const auto q = (words + 0.5) * (1 / 4294967296.0) - 0.5, r = 0.180625 - q * q;
  return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
         (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
}

HEADRACE_INLINE Register<double> find_tail(Register<double> words) {
  const auto p = (words + 0.5) * (1 / 4294967296.0);
  const auto r = find_roots(-find_logs(p < 0.5 ? p : 1 - p)) - 1.6;
  const auto z = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
                 ((0.12021132975 * r + 0.73700164250) * r + 1.0);
  return p < 0.5 ? -z : z;
}

HEADRACE_INLINE bool is_tail(uint32_t word) {
  constexpr uint32_t kFirst = 322122547, kLast = 3972844748;  // those of the middle
  return word - kFirst > kLast - kFirst;
}

// Replaces words by find(words), four at a time.
template <typename Find>
HEADRACE_INLINE void replace_words(double* words, size_t count, Find find) {
  for (size_t i = 0; i < count; i += 4)
    store(words + i, each<double>(find, load<double>(words + i)));
}

void make_normals(const uint32_t* words, size_t count, float* out) {
  constexpr size_t kBlock = 64;
  double values[kBlock] = {}, tails[kBlock] = {};
  for (; count > 0;) {
    const size_t size = std::min(kBlock, count);
    size_t places[kBlock + 1], found = 0;
    for (size_t i = 0; i < size; ++i) {
      values[i] = words[i];
      places[found] = i;
      found += is_tail(words[i]);
    }
    for (size_t i = 0; i < found; ++i) tails[i] = words[places[i]];
    replace_words(values, size, [=](auto x) HEADRACE_INLINE_LAMBDA { return find_middle(x); });
    replace_words(tails, found, [=](auto x) HEADRACE_INLINE_LAMBDA { return find_tail(x); });
    for (size_t i = 0; i < size; ++i) out[i] = float(values[i]);
    for (size_t i = 0; i < found; ++i) out[places[i]] = float(tails[i]);
    count -= size;
    words += size;
    out += size;
  }
}

}  // namespace
}  // namespace headrace
