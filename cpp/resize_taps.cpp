#include "resize_taps.h"

#include <algorithm>
#include <cmath>

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
  const size_t padded = (size_t(outputs) + 3) / 4 * 4;
  const auto slot_of = [&](int32_t i) { return reversed ? part.end - 1 - i : i - part.begin; };
  first.assign(padded, 0);
  size.assign(padded, 0);
  pairs = 1;
  for (int32_t i = part.begin; i < part.end; ++i) {
    const int32_t slot = slot_of(i);
    const double center = (i + 0.5) * step;
    first[slot] = std::max(int32_t(center - support + 0.5), 0);
    size[slot] = std::min(int32_t(center + support + 0.5), in) - first[slot];
    pairs = std::max(pairs, (size[slot] + 1) / 2);
  }
  weights_.assign(padded * size_t(pairs), {});
  exact_.resize(size_t(pairs) * 2);

  const auto weigh =
      filter == Filter::bilinear ? &weigh_with<Filter::bilinear> : &weigh_with<Filter::bicubic>;
  for (int32_t i = part.begin; i < part.end; ++i) {
    const int32_t slot = slot_of(i);
    const double sum = weigh(exact_.data(), first[slot], size[slot], (i + 0.5) * step, scale);
    WeightPair* weights = weights_.data() + size_t(slot) * size_t(pairs);
    for (int32_t t = 0; t < size[slot]; ++t) {
      const int32_t weight = quantise(sum != 0.0 ? exact_[t] / sum : exact_[t]);
      const int16_t low = int16_t(weight);
      weights[t / 2].low[t % 2] = low;
      weights[t / 2].high[t % 2] = int16_t((weight - low) >> 16);
    }
  }
}

Range Taps::sources() const {
  Range range{first[0], first[0] + size[0]};
  for (int32_t i = 1; i < outputs; ++i) {
    range.begin = std::min(range.begin, first[i]);
    range.end = std::max(range.end, first[i] + size[i]);
  }
  return range;
}

void Taps::shift(int32_t begin) {
  for (int32_t i = 0; i < outputs; ++i) first[i] -= begin;
}

}  // namespace penstock
