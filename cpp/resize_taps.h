// Which source pixels an output pixel is made of, and how much of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace {

enum class Filter { bilinear, bicubic };

// From `begin` up to but not including `end`.
struct Range {
  int32_t begin = 0, end = 0;

  int32_t size() const { return end - begin; }
};

// Weights are Pillow's, to the last bit: fixed point with this many bits behind the point.
constexpr int kWeightBits = 22;

// One axis of a resize. Output i is the sum over t < size[i] of weight t * source[first[i] + t].
// All have room for one weight more than the largest size; those past its size are zero. After the
// last output come others of size 0, up to a multiple of kLineUnit, with the same `first`.
struct Taps {
  std::vector<int32_t> first, size;
  int32_t outputs = 0;
  int32_t most = 0;  // the largest size

  // Those of the outputs `part` of a resize from `in` to `out` pixels, counted from the first of
  // them. With `reversed` they come last first. Memory is reused.
  void build(int32_t in, int32_t out, Range part, Filter filter, bool reversed);

  // The sources that any output needs; from now on they are counted from the first of them.
  Range take_sources();

  const int32_t* weights_of(int32_t output) const {
    return weights_.data() + size_t(output) * stride_;
  }

 private:
  size_t stride_ = 0;
  std::vector<int32_t> weights_;
  std::vector<double> exact_;  // weights of one output
};

}  // namespace headrace
