#include "noise.h"

#include <cmath>
#include <cstring>

namespace headrace {
namespace {

// The natural logarithm of a normal number below 1, by the series of atanh.
double find_log(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const int exponent = int(bits >> 52) - 1022;
  bits = (bits & 0xFFFFFFFFFFFFF) | uint64_t(1022) << 52;  // the mantissa, from 0.5 to 1
  double mantissa;
  std::memcpy(&mantissa, &bits, sizeof mantissa);
  const double z = (mantissa - 0.75) / (mantissa + 0.75), square = z * z;
  double sum = 0;
  for (int k = 13; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * z * sum + (exponent * 0.69314718055994530942 - 0.28768207245178092744);
}

}  // namespace

std::array<uint32_t, 4> draw_words(uint64_t counter, uint64_t key) {
  std::array<uint32_t, 4> words = {uint32_t(counter), uint32_t(counter >> 32), 0, 0};
  auto low = uint32_t(key), high = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t(words[0]) * 0xD2511F53,
                   second = uint64_t(words[2]) * 0xCD9E8D57;
    words = {uint32_t(second >> 32) ^ words[1] ^ low, uint32_t(second),
             uint32_t(first >> 32) ^ words[3] ^ high, uint32_t(first)};
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  return words;
}

// Algorithm AS 241 (PPND7) of Wichura, "The percentage points of the normal distribution" (1988).
float to_normal(uint32_t word) {
  const double p = (double(word) + 0.5) / 4294967296.0, q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return float(q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
                 (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0));
  }
  double r = std::sqrt(-find_log(q < 0 ? p : 1 - p)), z;
  if (r <= 5) {
    r -= 1.6;
    z = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
        ((0.12021132975 * r + 0.73700164250) * r + 1.0);
  } else {
    r -= 5;
    z = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150) /
        ((0.012258202635 * r + 0.24197894225) * r + 1.0);
  }
  return float(q < 0 ? -z : z);
}

}  // namespace headrace
