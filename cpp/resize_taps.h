// Which source pixels an output pixel is made of, and how much of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock {

enum class Filter { bilinear, bicubic };

// Weights are Pillow's, to the last bit: fixed point with this many bits behind the point.
constexpr int kWeightBits = 22;

// One axis of a resize. Output i is the sum over t < size[i] of weight(i, t) * source[first[i] +
// t]. A weight is kept as high * 65536 + low, which 16-bit multiplies can use. Every output has
// room for `room` weights (even), those past its size are zero, and so are the outputs past the
// last one up to a multiple of four.
struct Taps {
  std::vector<int32_t> first, size;
  std::vector<int16_t> low, high;
  int32_t room = 0;

  // Memory is reused. With `reversed`, output i gets what output `out - 1 - i` would get.
  void build(int32_t in, int32_t out, Filter filter, bool reversed);

  const int16_t* low_of(int32_t output) const { return low.data() + size_t(output) * room; }
  const int16_t* high_of(int32_t output) const { return high.data() + size_t(output) * room; }

 private:
  std::vector<double> weights_;
};

}  // namespace penstock
