#include "blur.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels.h"

namespace headrace {
namespace {

constexpr int kPasses = 3;

// The weights of a box blur, of 2^24: the middle, and the pixels just beyond on both sides.
struct BoxWeights {
  int32_t radius;
  uint32_t middle, far;
};

// Returns the radius of the box whose passes come close to a Gaussian; in float, as Pillow does.
float find_box_radius(float radius) {
  const float sigma2 = radius * radius / kPasses;
  const auto length = float(std::sqrt(12.0 * double(sigma2) + 1.0));
  const auto whole = float(std::floor((double(length) - 1.0) / 2.0));
  float rest = (2 * whole + 1) * (whole * (whole + 1) - 3 * sigma2);
  rest /= 6 * (sigma2 - (whole + 1) * (whole + 1));
  return whole + rest;
}

BoxWeights weigh_box(float radius) {
  const auto whole = int32_t(radius);
  const auto middle = uint32_t(float(1 << 24) / (radius * 2 + 1));
  return {whole, middle, ((1u << 24) - uint32_t(whole * 2 + 1) * middle) / 2};
}

// A line with its edges repeated `border` pixels outwards.
void pad_line(uint8_t* line, int32_t width, size_t border) {
  uint8_t *left = line, *right = line + size_t(width) * 3;
  for (size_t i = 0; i < border; ++i, right += 3) {
    left -= 3;
    std::memcpy(left, line, 3);
    std::memcpy(right, line + size_t(width - 1) * 3, 3);
  }
}

// Sums of all pixels up to `reach` bytes away.
void sum_far(const uint8_t* in, size_t size, size_t reach, uint32_t* sums) {
  const uint8_t *before = in - reach, *after = in + reach;
  uint32_t red = 0, green = 0, blue = 0;
  for (size_t i = 0; i < 2 * reach; i += 3) {
    red += before[i];
    green += before[i + 1];
    blue += before[i + 2];
  }
  for (size_t i = 0; i < size; i += 3) {
    sums[i] = red += after[i];
    sums[i + 1] = green += after[i + 1];
    sums[i + 2] = blue += after[i + 2];
    red -= before[i];
    green -= before[i + 1];
    blue -= before[i + 2];
  }
}

// Blurs `in`, which has a border, along itself.
void blur_line(const uint8_t* in, size_t size, const BoxWeights& box, uint32_t* sums,
               uint8_t* out) {
  const size_t reach = size_t(box.radius) * 3;
  if (box.radius <= 3)
    kernels().sum_line(in, size, box.radius, sums);
  else
    sum_far(in, size, reach, sums);
  kernels().weigh_box(sums, in - reach - 3, in + reach + 3, box.middle, box.far, out, size);
}

// Blurs all rows, from the picture to `out`.
void blur_rows(const Canvas& canvas, const BoxWeights& box, BlurMemory& memory, uint8_t* out) {
  const auto border = size_t(box.radius) + 1;
  const size_t size = canvas.stride(), length = size + border * 6 + 64;
  uint8_t* lines = memory.padded.reserve(length * 2);
  uint8_t *first = lines + border * 3, *second = first + length;
  uint32_t* sums = memory.sums.reserve(size);
  for (int32_t y = 0; y < canvas.height; ++y, out += size) {
    std::memcpy(first, canvas.row(y), size);
    for (int pass = 0; pass < kPasses; ++pass) {
      pad_line(first, canvas.width, border);
      blur_line(first, size, box, sums, pass + 1 < kPasses ? second : out);
      std::swap(first, second);
    }
  }
}

// Blurs all columns, from one picture to another.
void blur_columns(const Canvas& from, const BoxWeights& box, uint32_t* sums, const Canvas& to) {
  const size_t size = from.stride();
  const auto row = [&](int32_t y) { return from.row(std::clamp(y, 0, from.height - 1)); };
  std::fill_n(sums, size, 0);
  for (int32_t y = -box.radius - 1; y < box.radius; ++y) kernels().add_line(row(y), size, sums);
  for (int32_t y = 0; y < from.height; ++y) {
    const uint8_t* before = row(y - box.radius - 1);
    kernels().move_sums(row(y + box.radius), before, size, sums);
    kernels().weigh_box(sums, before, row(y + box.radius + 1), box.middle, box.far, to.row(y),
                        size);
  }
}

// Returns e^x for x up to 0: the same bits on every machine, unlike that of the C library.
double find_exp(double x) {
  if (!(x > -700)) return 0;
  const double turns = std::nearbyint(x * 1.44269504088896340736);
  const double rest = x - turns * 0.69314718036912381649 - turns * 1.9082149292705877e-10;
  double sum = 1;
  for (int k = 13; k >= 1; --k) sum = 1 + sum * rest / k;
  return std::ldexp(sum, int(turns));
}

// Returns the weights of a Gaussian, which add up to 1.
const float* weigh_gaussian(double sigma, int size, Buffer<float>& memory) {
  float *weights = memory.reserve(size_t(size)), sum = 0;
  for (int i = 0; i < size; ++i) {
    const float x = float(i - size / 2) / float(sigma);
    weights[i] = float(find_exp(-0.5 * double(x * x)));
    sum += weights[i];
  }
  for (int i = 0; i < size; ++i) weights[i] /= sum;
  return weights;
}

// Returns the pixel that is seen at `place` when edges are mirrors.
int32_t reflect(int32_t place, int32_t count) {
  if (count == 1) return 0;
  const int32_t period = 2 * (count - 1);
  place = (place % period + period) % period;
  return std::min(place, period - place);
}

// Mirrors `half` pixels at both ends of a line of floats.
void mirror_ends(float* line, int32_t width, int32_t half) {
  for (int32_t i = 1; i <= half; ++i)
    for (int c = 0; c < 3; ++c) {
      line[-i * 3 + c] = line[reflect(-i, width) * 3 + c];
      line[(width - 1 + i) * 3 + c] = line[reflect(width - 1 + i, width) * 3 + c];
    }
}

}  // namespace

void gaussian_blur(const Canvas& canvas, float radius, BlurMemory& memory) {
  const float box_radius = find_box_radius(std::clamp(radius, 0.0f, 1000.0f));
  if (!(box_radius > 0)) return;
  const BoxWeights box = weigh_box(box_radius);
  const Canvas copy{memory.picture.reserve(canvas.size()), canvas.width, canvas.height};
  blur_rows(canvas, box, memory, copy.pixels);
  uint32_t* sums = memory.sums.reserve(canvas.stride());
  blur_columns(copy, box, sums, canvas);
  blur_columns(canvas, box, sums, copy);
  blur_columns(copy, box, sums, canvas);
}

void torch_blur(const Canvas& canvas, double sigma, int size, BlurMemory& memory) {
  const int32_t half = size / 2, height = canvas.height;
  const size_t stride = canvas.stride(), border = size_t(half) * 3;
  const float* weights = weigh_gaussian(sigma, size, memory.weights);
  const float** lines = memory.lines.reserve(size_t(size));
  float* line = memory.line.reserve(stride + 2 * border + kBlurPadding) + border;
  float* smooth = memory.smooth.reserve(stride * size_t(height) + kBlurPadding);
  for (int32_t i = 0; i < size; ++i) lines[i] = line + (i - half) * 3;
  for (int32_t y = 0; y < height; ++y) {
    kernels().widen_levels(canvas.row(y), line, stride);
    mirror_ends(line, canvas.width, half);
    kernels().weigh_lines(lines, weights, size, smooth + size_t(y) * stride, stride);
  }
  for (int32_t y = 0; y < height; ++y) {
    for (int32_t i = 0; i < size; ++i)
      lines[i] = smooth + size_t(reflect(y + i - half, height)) * stride;
    kernels().weigh_lines(lines, weights, size, line, stride);
    kernels().round_levels(line, canvas.row(y), stride);
  }
}

}  // namespace headrace
