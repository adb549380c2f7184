#include "resize_taps.h"

#include <algorithm>
#include <cmath>

#include "simd.h"

namespace penstock {
namespace {

double support_of(Filter filter) { return filter == Filter::bilinear ? 1.0 : 2.0; }

template <Filter filter>
double evaluate(double x) {
  x = std::fabs(x);
  if (filter == Filter::bilinear) return x < 1.0 ? 1.0 - x : 0.0;
  if (x < 1.0) return (1.5 * x - 2.5) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * -0.5;
  return 0.0;
}

// The order of the operations is Pillow's: the same doubles come out.
template <Filter filter>
double weigh_with(double* weights, int32_t first, int32_t size, double center, double scale) {
  const double inverse = 1.0 / scale;
  double sum = 0.0;
  for (int32_t t = 0; t < size; ++t) {
    weights[t] = evaluate<filter>((t + first - center + 0.5) * inverse);
    sum += weights[t];
  }
  return sum;
}

int32_t quantise(double weight) {
  return int32_t(weight * (1 << kWeightBits) + (weight < 0 ? -0.5 : 0.5));
}

}  // namespace

void Taps::build(int32_t in, int32_t out, Range part, Filter filter, bool reversed) {
  const double step = double(in) / out;
  const double scale = std::max(step, 1.0);
  const double support = support_of(filter) * scale;
  outputs = part.size();
  const size_t padded = (size_t(outputs) + kLineUnit - 1) / kLineUnit * kLineUnit;
  const auto slot_of = [&](int32_t i) { return reversed ? part.end - 1 - i : i - part.begin; };
  first.resize(padded);
  size.assign(padded, 0);
  most = 0;
  for (int32_t i = part.begin; i < part.end; ++i) {
    const int32_t slot = slot_of(i);
    const double center = (i + 0.5) * step;
    first[slot] = std::max(int32_t(center - support + 0.5), 0);
    size[slot] = std::min(int32_t(center + support + 0.5), in) - first[slot];
    most = std::max(most, size[slot]);
  }
  std::fill(first.begin() + outputs, first.end(), first[outputs - 1]);
  stride_ = (size_t(most) + 1) / 2 * 2;
  weights_.assign(padded * stride_, 0);
  exact_.resize(size_t(most));

  const auto weigh =
      filter == Filter::bilinear ? &weigh_with<Filter::bilinear> : &weigh_with<Filter::bicubic>;
  for (int32_t i = part.begin; i < part.end; ++i) {
    const int32_t slot = slot_of(i);
    const double sum = weigh(exact_.data(), first[slot], size[slot], (i + 0.5) * step, scale);
    int32_t* weights = weights_.data() + size_t(slot) * stride_;
    for (int32_t t = 0; t < size[slot]; ++t)
      weights[t] = quantise(sum != 0.0 ? exact_[t] / sum : exact_[t]);
  }
}

Range Taps::sources() const {
  const int32_t last = outputs - 1;
  return {std::min(first[0], first[last]), std::max(first[0] + size[0], first[last] + size[last])};
}

void Taps::shift(int32_t begin) {
  for (int32_t& source : first) source -= begin;
}

}  // namespace penstock
