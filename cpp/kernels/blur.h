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

// Weighted sums of an odd number of lines, whose weights are symmetric. Reads and writes up to
// kBlurPadding elements behind the last one.
void weigh_lines(const float* const* lines, const float* weights, int count, float* out,
                 size_t size) {
  using Floats = Register<float>;
  constexpr size_t kLanes = sizeof(Floats) / sizeof(float), kStep = 4 * kLanes;
  static_assert(kStep <= kBlurPadding);
  const auto at = [=](int line, size_t i) HEADRACE_INLINE_LAMBDA {
    Floats loaded;
    std::memcpy(&loaded, lines[line] + i, sizeof loaded);
    return loaded;
  };
  const int half = count / 2;
  for (size_t i = 0; i < size; i += kStep) {
    Floats sums[4];
    for (size_t j = 0; j < 4; ++j) sums[j] = weights[half] * at(half, i + j * kLanes);
    for (int k = 0; k < half; ++k)
      for (size_t j = 0; j < 4; ++j)
        sums[j] += weights[k] * (at(k, i + j * kLanes) + at(count - 1 - k, i + j * kLanes));
    std::memcpy(out + i, sums, sizeof sums);
  }
}

void widen_levels(const uint8_t* in, float* __restrict out, size_t size) {
  for (size_t i = 0; i < size; ++i) out[i] = float(in[i]);
}

// Adding 2^23 rounds to the nearest integer, ties to even.
void round_levels(const float* in, uint8_t* __restrict out, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    const float level = in[i] < 255.0f ? in[i] : 255.0f;
    out[i] = uint8_t(int32_t((level + 8388608.0f) - 8388608.0f));
  }
}

}  // namespace
}  // namespace headrace
