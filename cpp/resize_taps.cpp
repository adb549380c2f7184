#include "resize_taps.h"

#include <algorithm>
#include <cmath>

#include "pixels.h"

namespace headrace {
namespace {

double evaluate(Filter filter, double x) {
  x = std::fabs(x);
  if (filter == Filter::bilinear) return x < 1.0 ? 1.0 - x : 0.0;
  if (x < 1.0) return (1.5 * x - 2.5) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * -0.5;
  return 0.0;
}

int32_t quantise(double weight) {
  return int32_t(weight * (1 << kWeightBits) + (weight < 0 ? -0.5 : 0.5));
}

// Where the sources of each output lie. The order of the operations is Pillow's, so that the
// doubles are the same.
struct Footprint {
  int32_t in;
  double step, scale, support;

  Footprint(int32_t in, int32_t out, Filter filter)
      : in(in),
        step(double(in) / out),
        scale(std::max(step, 1.0)),
        support((filter == Filter::bilinear ? 1.0 : 2.0) * scale) {}
  double center(int32_t output) const { return (output + 0.5) * step; }
  int32_t begin(double center) const { return std::max(int32_t(center - support + 0.5), 0); }
  int32_t end(double center) const { return std::min(int32_t(center + support + 0.5), in); }
};

}  // namespace

void Taps::build(int32_t in, int32_t out, Range part, Filter filter, bool reversed) {
  const Footprint footprint(in, out, filter);
  const double inverse = 1.0 / footprint.scale;
  outputs = part.size();
  most = 0;
  const size_t padded = (size_t(outputs) + kLineUnit - 1) / kLineUnit * kLineUnit;
  stride_ = size_t(std::min(int32_t(footprint.support * 2) + 2, in)) + 1;
  first.resize(padded);
  size.assign(padded, 0);
  weights_.assign(padded * stride_, 0);
  exact_.resize(stride_);
  for (int32_t i = part.begin; i < part.end; ++i) {
    const size_t slot = size_t(reversed ? part.end - 1 - i : i - part.begin);
    const double center = footprint.center(i);
    const int32_t begin = footprint.begin(center), count = footprint.end(center) - begin;
    first[slot] = begin;
    size[slot] = count;
    most = std::max(most, count);
    double sum = 0.0;
    for (int32_t t = 0; t < count; ++t)
      sum += exact_[t] = evaluate(filter, (t + begin - center + 0.5) * inverse);
    int32_t* weights = weights_.data() + slot * stride_;
    for (int32_t t = 0; t < count; ++t)
      weights[t] = quantise(sum != 0.0 ? exact_[t] / sum : exact_[t]);
  }
  std::fill(first.begin() + outputs, first.end(), first[outputs - 1]);
}

Range Taps::find_sources(int32_t in, int32_t out, Range part, Filter filter) {
  const Footprint footprint(in, out, filter);
  return {footprint.begin(footprint.center(part.begin)),
          footprint.end(footprint.center(part.end - 1))};
}

Range Taps::take_sources() {
  const int32_t last = outputs - 1, begin = std::min(first[0], first[last]);
  const int32_t end = std::max(first[0] + size[0], first[last] + size[last]);
  for (int32_t& source : first) source -= begin;
  return {begin, end};
}

}  // namespace headrace
