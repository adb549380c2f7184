// The source pixels of each output pixel and their weights.
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

// Fractional bits of a weight. Weights are Pillow's, to the last bit.
constexpr int kWeightBits = 22;

// One axis of a resize. Output i is the sum over t < size[i] of weight[t] * source[first[i] + t].
// Every output has room for one weight more than the largest size; weights past its size are zero.
// Behind the last output follow others of size 0, up to a multiple of kLineUnit.
struct Taps {
  std::vector<int32_t> first, size;
  int32_t outputs = 0;
  int32_t most = 0;  // the largest size

  // Computes the outputs `part` of a resize from `in` to `out` pixels, in reverse order if
  // `reversed`. Reuses its memory.
  void build(int32_t in, int32_t out, Range part, Filter filter, bool reversed);

  // Returns the sources that the outputs `part` of such a resize need.
  static Range find_sources(int32_t in, int32_t out, Range part, Filter filter);

  // Returns the sources that the outputs need, and counts them from the first one from now on.
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
