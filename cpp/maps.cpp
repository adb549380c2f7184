#include "maps.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace headrace {
namespace {

// The sources of each result on one axis, and their weights. The order of the operations and their
// types are those of torch's antialiased "bilinear", so that the weights are the same.
class FloatTaps {
 public:
  int32_t first(int32_t result) const { return first_[size_t(result)]; }
  int32_t size(int32_t result) const { return size_[size_t(result)]; }
  const float* weights(int32_t result) const { return weights_.data() + size_t(result) * stride_; }

  // Builds the taps of `count` results. Returns the range of those that lie in the picture.
  Range build(const Axis& axis, int32_t count, bool nearest) {
    const Range inside = find_inside(axis, count);
    const float reach = std::max(axis.scale(), 1.0f);
    one_each_ = nearest || axis.size == axis.full;
    stride_ = one_each_ ? 1 : size_t(std::min(2 * std::ceil(reach) + 2, float(axis.size)));
    first_.resize(size_t(count));
    size_.resize(size_t(count));
    weights_.resize(size_t(count) * stride_);
    for (int32_t i = inside.begin; i < inside.end; ++i)
      build_one(axis, axis.offset + i, size_t(axis.flip ? count - 1 - i : i));
    return axis.flip ? Range{count - inside.end, count - inside.begin} : inside;
  }

 private:
  void build_one(const Axis& axis, int32_t place, size_t result) {
    float* weights = weights_.data() + result * stride_;
    const float scale = axis.scale();
    if (one_each_) {
      first_[result] = find_source<Nearest::floor>(place, scale, axis.size);
      size_[result] = 1;
      weights[0] = 1;
      return;
    }
    const float support = std::max(scale, 1.0f), inverse = scale >= 1 ? float(1.0 / scale) : 1.0f;
    const auto center = float(scale * (place + 0.5));
    const int32_t begin = std::max(int32_t(center - support + 0.5), 0);
    const int32_t end = std::min(int32_t(center + support + 0.5), axis.size);
    const int32_t count = std::clamp(end - begin, 1, int32_t(stride_));
    float sum = 0;
    for (int32_t t = 0; t < count; ++t) {
      const auto x = float((float(t + begin) - center + 0.5) * inverse);
      sum += weights[t] = std::max(1 - std::fabs(x), 0.0f);
    }
    for (int32_t t = 0; t < count && sum != 0; ++t) weights[t] /= sum;
    first_[result] = begin;
    size_[result] = count;
  }

  bool one_each_ = false;
  size_t stride_ = 1;
  std::vector<int32_t> first_, size_;
  std::vector<float> weights_;
};

// Returns the weighted sum of the rows that a result needs: a row as it is, or `mixed`.
const float* mix_rows(const float* in, size_t length, const FloatTaps& taps, int32_t y,
                      std::vector<float>& mixed) {
  const float *row = in + size_t(taps.first(y)) * length, *weights = taps.weights(y);
  if (taps.size(y) == 1) return row;
  float* __restrict to = mixed.data();
  for (size_t i = 0; i < length; ++i) to[i] = row[i] * weights[0];
  for (int32_t t = 1; t < taps.size(y); ++t) {
    row += length;
    for (size_t i = 0; i < length; ++i) to[i] += row[i] * weights[t];
  }
  return to;
}

// Channels: 0 for any number.
template <size_t Channels>
void mix_columns(const float* row, size_t any_channels, const FloatTaps& taps, Range range,
                 const float* factors, float* __restrict out) {
  const size_t channels = Channels ? Channels : any_channels;
  for (int32_t x = range.begin; x < range.end; ++x) {
    const float *from = row + size_t(taps.first(x)) * channels, *weights = taps.weights(x);
    for (size_t c = 0; c < channels; ++c) {
      float sum = from[c] * weights[0];
      for (int32_t t = 1; t < taps.size(x); ++t) sum += from[size_t(t) * channels + c] * weights[t];
      out[size_t(x) * channels + c] = sum * factors[c];
    }
  }
}

}  // namespace

void render_map(const float* in, size_t channels, const MapView& view, float* out, int32_t height,
                int32_t width) {
  static thread_local FloatTaps rows, columns;  // keep their memory
  static thread_local std::vector<float> mixed;
  const Range down = rows.build(view.rows, height, view.nearest);
  const Range across = columns.build(view.columns, width, view.nearest);
  const size_t length = size_t(view.columns.size) * channels;
  mixed.resize(std::max(length, mixed.size()));
  const auto mix = channels == 1   ? mix_columns<1>
                   : channels == 2 ? mix_columns<2>
                   : channels == 3 ? mix_columns<3>
                                   : mix_columns<0>;
  for (int32_t y = 0; y < height; ++y, out += size_t(width) * channels) {
    const Range shown = y >= down.begin && y < down.end ? across : Range{width, width};
    std::fill_n(out, size_t(shown.begin) * channels, view.fill);
    if (shown.size() > 0)
      mix(mix_rows(in, length, rows, y, mixed), channels, columns, shown, view.factors, out);
    std::fill_n(out + size_t(shown.end) * channels, size_t(width - shown.end) * channels,
                view.fill);
  }
}

}  // namespace headrace
