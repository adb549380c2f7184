// Sums of pixels along lines and columns. The compiler turns most loops into vectors.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace headrace {
namespace {

// Sums of 2 * radius + 1 pixels of RGB around each, for a radius up to 3.
void sum_line(const uint8_t* in, size_t size, int radius, uint32_t* __restrict sums) {
  const auto add = [=](auto... offset) HEADRACE_INLINE_LAMBDA {
    for (size_t i = 0; i < size; ++i) sums[i] = (... + uint32_t((in + offset)[i]));
  };
  if (radius == 0) return add(0);
  if (radius == 1) return add(-3, 0, 3);
  if (radius == 2) return add(-6, -3, 0, 3, 6);
  add(-9, -6, -3, 0, 3, 6, 9);
}

void add_line(const uint8_t* in, size_t size, uint32_t* __restrict sums) {
  for (size_t i = 0; i < size; ++i) sums[i] += in[i];
}

void move_sums(const uint8_t* add, const uint8_t* subtract, size_t size,
               uint32_t* __restrict sums) {
  for (size_t i = 0; i < size; ++i) sums[i] += uint32_t(add[i]) - uint32_t(subtract[i]);
}

// Weighted sums of a box and of the pixels beyond it, rounded to bytes; weights are of 2^24.
void weigh_box(const uint32_t* sums, const uint8_t* before, const uint8_t* after, uint32_t middle,
               uint32_t far, uint8_t* __restrict out, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    const uint32_t beyond = uint32_t(before[i]) + uint32_t(after[i]);
    out[i] = uint8_t((sums[i] * middle + beyond * far + (1u << 23)) >> 24);
  }
}

constexpr size_t kLanes = 32;
static_assert(kLanes <= kBlurPadding);

// Weighted sums of rows. Reads and writes up to the next multiple of 32 elements.
void weigh_rows(const uint8_t* const* rows, const float* weights, int count, float* out,
                size_t size) {
  for (size_t i = 0; i < size; i += kLanes) {
    float sums[kLanes] = {};
    for (int k = 0; k < count; ++k)
      for (size_t j = 0; j < kLanes; ++j) sums[j] += weights[k] * float(rows[k][i + j]);
    std::memcpy(out + i, sums, sizeof sums);
  }
}

// Weighted sums of pixels of a row, rounded to bytes. `in` begins with those before the first one.
void weigh_pixels(const float* in, const float* weights, int count, uint8_t* out, size_t size) {
  for (size_t i = 0; i < size; i += kLanes) {
    float sums[kLanes] = {};
    for (int k = 0; k < count; ++k)
      for (size_t j = 0; j < kLanes; ++j) sums[j] += weights[k] * in[i + j + size_t(k) * 3];
    uint8_t levels[kLanes];
    for (size_t j = 0; j < kLanes; ++j) {
      const float level = sums[j] < 255.0f ? sums[j] : 255.0f;
      // Adding 2^23 rounds to the nearest whole number, ties to even.
      levels[j] = uint8_t(int32_t((level + 8388608.0f) - 8388608.0f));
    }
    std::memcpy(out + i, levels, std::min(kLanes, size - i));
  }
}

}  // namespace
}  // namespace headrace
