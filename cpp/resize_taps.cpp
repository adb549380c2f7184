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
double weigh(double* weights, int32_t first, int32_t size, double center, double scale) {
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

void Taps::build(int32_t in, int32_t out, Filter filter, bool reversed) {
  const double step = double(in) / out;
  const double scale = std::max(step, 1.0);
  const double support = support_of(filter) * scale;
  const size_t outputs = (size_t(out) + 3) / 4 * 4;
  first.assign(outputs, 0);
  size.assign(outputs, 0);
  room = 2;
  for (int32_t i = 0; i < out; ++i) {
    const int32_t slot = reversed ? out - 1 - i : i;
    const double center = (i + 0.5) * step;
    first[slot] = std::max(int32_t(center - support + 0.5), 0);
    size[slot] = std::min(int32_t(center + support + 0.5), in) - first[slot];
    room = std::max(room, (size[slot] + 1) / 2 * 2);
  }
  low.assign(outputs * room, 0);
  high.assign(outputs * room, 0);
  weights_.resize(room);

  for (int32_t i = 0; i < out; ++i) {
    const int32_t slot = reversed ? out - 1 - i : i;
    const double center = (i + 0.5) * step;
    const double sum =
        filter == Filter::bilinear
            ? weigh<Filter::bilinear>(weights_.data(), first[slot], size[slot], center, scale)
            : weigh<Filter::bicubic>(weights_.data(), first[slot], size[slot], center, scale);
    int16_t* lows = low.data() + size_t(slot) * room;
    int16_t* highs = high.data() + size_t(slot) * room;
    for (int32_t t = 0; t < size[slot]; ++t) {
      const int32_t weight = quantise(sum != 0.0 ? weights_[t] / sum : weights_[t]);
      lows[t] = int16_t(weight);
      highs[t] = int16_t((weight - lows[t]) / 65536);
    }
  }
}

}  // namespace penstock
