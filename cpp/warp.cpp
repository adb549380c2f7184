#include "warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels.h"

namespace headrace {
namespace {

// Copies the pixels to `memory`, with edges repeated.
void copy_source(const Canvas& canvas, Buffer<uint8_t>& memory, Warp& warp) {
  constexpr size_t kBefore = size_t(kWarpBorder) * 3;
  warp.width = canvas.width;
  warp.height = canvas.height;
  warp.stride = canvas.stride() + 2 * kBefore;
  const auto rows = size_t(canvas.height + 2 * kWarpBorder);
  uint8_t* to = memory.reserve(rows * warp.stride + 16);
  warp.pixels = to + size_t(kWarpBorder) * warp.stride + kBefore;
  for (int32_t y = -kWarpBorder; y < canvas.height + kWarpBorder; ++y, to += warp.stride) {
    const uint8_t* from = canvas.row(std::clamp(y, 0, canvas.height - 1));
    std::memcpy(to + kBefore, from, canvas.stride());
    for (size_t i = 0; i < kBefore; i += 3) {
      std::memcpy(to + i, from, 3);
      std::memcpy(to + kBefore + canvas.stride() + i, from + canvas.stride() - 3, 3);
    }
  }
}

void fill_pixels(uint8_t* out, int32_t count, const uint8_t fill[3]) {
  for (; count > 0; --count, out += 3) std::memcpy(out, fill, 3);
}

// Returns the whole part of a place if it lies in the picture, else -1.
int32_t find_index(double place, int32_t count) {
  return place >= 0 && place < count ? int32_t(place) : -1;
}

// Returns v in 16.16 fixed point, as Pillow rounds it. Those out of range are never used.
uint32_t to_fixed(double v) {
  const double fixed = std::floor(v * 65536.0 + 0.5);
  return std::fabs(fixed) < 2147483648.0 ? uint32_t(int32_t(fixed)) : 0x80000000u;
}

bool fits_fixed(const double* a, double x, double y, double limit) {
  return std::fabs(x * a[0] + y * a[1] + a[2]) < limit &&
         std::fabs(x * a[3] + y * a[4] + a[5]) < limit;
}

// Returns the x of the first output pixel that shows the source, or the width. Sets `indices`, the
// places in the source of this one and those behind it, as far as they show it; and their number.
int32_t find_columns(const Warp& warp, int32_t width, int32_t* indices, int32_t& count) {
  double place = warp.coefficients[2] + warp.coefficients[0] * 0.5;
  int32_t first = width;
  count = 0;
  for (int32_t x = 0; x < width; ++x, place += warp.coefficients[0]) {
    const int32_t index = find_index(place, warp.width);
    if (index < 0) continue;
    first = std::min(first, x);
    indices[count++] = index;
  }
  return first;
}

// Nearest pixels of a transform that only scales and moves.
void scale_nearest(const Canvas& canvas, const Warp& warp, Buffer<int32_t>& memory) {
  int32_t count, *indices = memory.reserve(size_t(canvas.width));
  const int32_t first = find_columns(warp, canvas.width, indices, count);
  const bool together =
      count > 0 && indices[count - 1] - indices[0] == count - 1 && warp.coefficients[0] == 1;
  double place = warp.coefficients[5] + warp.coefficients[4] * 0.5;
  for (int32_t y = 0; y < canvas.height; ++y, place += warp.coefficients[4]) {
    uint8_t* out = canvas.row(y);
    const int32_t row = find_index(place, warp.height), shown = row < 0 ? 0 : count;
    const int32_t before = shown ? first : canvas.width;
    fill_pixels(out, before, warp.fill);
    out += size_t(before) * 3;
    const uint8_t* in = warp.pixels + size_t(std::max(row, 0)) * warp.stride;
    if (together && shown) std::memcpy(out, in + indices[0] * 3, size_t(shown) * 3);
    for (int32_t i = 0; !together && i < shown; ++i)
      std::memcpy(out + i * 3, in + size_t(indices[i]) * 3, 3);
    fill_pixels(out + size_t(shown) * 3, canvas.width - before - shown, warp.fill);
  }
}

// Nearest pixels in fixed point: the way of nearly all transforms.
void warp_fixed(const Canvas& canvas, const Warp& warp) {
  const double* a = warp.coefficients;
  const uint32_t right = to_fixed(a[0]), below = to_fixed(a[1]);
  const uint32_t right_y = to_fixed(a[3]), below_y = to_fixed(a[4]);
  FixedPlace place{to_fixed(a[2] + a[0] * 0.5 + a[1] * 0.5),
                   to_fixed(a[5] + a[3] * 0.5 + a[4] * 0.5), right, right_y};
  for (int32_t y = 0; y < canvas.height; ++y) {
    kernels().warp_fixed(warp, place, canvas.row(y), canvas.width);
    place.x += below;
    place.y += below_y;
  }
}

// Nearest pixels of a transform that reaches too far for fixed point.
void warp_far(const Canvas& canvas, const Warp& warp) {
  const double* a = warp.coefficients;
  double left = a[2] + a[1] * 0.5 + a[0] * 0.5, top = a[5] + a[4] * 0.5 + a[3] * 0.5;
  for (int32_t y = 0; y < canvas.height; ++y, left += a[1], top += a[4]) {
    uint8_t* out = canvas.row(y);
    double x_in = left, y_in = top;
    for (int32_t x = 0; x < canvas.width; ++x, out += 3, x_in += a[0], y_in += a[3]) {
      const int32_t column = find_index(x_in, warp.width), row = find_index(y_in, warp.height);
      const bool inside = column >= 0 && row >= 0;
      std::memcpy(out,
                  inside ? warp.pixels + size_t(row) * warp.stride + size_t(column) * 3 : warp.fill,
                  3);
    }
  }
}

void warp_nearest(const Canvas& canvas, const Warp& warp, Buffer<int32_t>& columns) {
  const double *a = warp.coefficients, width = canvas.width, height = canvas.height;
  if (a[1] == 0 && a[3] == 0) return scale_nearest(canvas, warp, columns);
  // intentional: not Pillow's limit for giants, where rounded steps could overflow into the
  // picture.
  const double limit = std::max(width, height) > 32000 ? 32766.0 : 32768.0;
  if (fits_fixed(a, 0, 0, limit) && fits_fixed(a, width, height, limit) &&
      fits_fixed(a, 0, height, limit) && fits_fixed(a, width, 0, limit))
    return warp_fixed(canvas, warp);
  warp_far(canvas, warp);
}

}  // namespace

void run_warp(const Canvas& canvas, Warp& warp, WarpFilter filter, WarpMemory& memory) {
  copy_source(canvas, memory.source, warp);
  if (filter == WarpFilter::nearest && !warp.perspective)
    return warp_nearest(canvas, warp, memory.columns);
  const auto warp_row = kernels().warp_row[int(filter)];
  for (int32_t y = 0; y < canvas.height; ++y) warp_row(warp, y, canvas.row(y), canvas.width);
}

}  // namespace headrace
