#include "jpeg_planes.h"

#include <algorithm>
#include <cstring>

#include "kernels.h"

namespace headrace {
namespace {

constexpr int kLeftPadding = 32;  // one sample is read, the others keep rows aligned

struct Range {
  int32_t first, last;
};

// The samples of one axis that the pixels [begin, begin + count) depend on.
Range needed_samples(int32_t begin, int32_t count, int factor, bool smooth, int32_t size) {
  const int margin = smooth ? 1 : 0;
  return {std::max(begin / factor - margin, 0),
          std::min((begin + count - 1) / factor + margin, size - 1)};
}

// Each sample `factor` times.
void replicate(const uint8_t* in, uint8_t* out, int n, int factor) {
  for (int i = 0; i < n; ++i, out += factor) std::memset(out, in[i], size_t(factor));
}

}  // namespace

// Follows jinit_upsampler in libjpeg-turbo's jdsample.c.
Scaling Scaling::of(const Headers& headers, const Component& component) {
  Scaling scaling;
  scaling.h_factor = headers.max_h / component.h;
  scaling.v_factor = headers.max_v / component.v;
  const bool wide_enough = component.width > 2;
  scaling.smooth_h = scaling.h_factor == 2 && scaling.v_factor <= 2 && wide_enough;
  scaling.smooth_v =
      scaling.v_factor == 2 && (scaling.h_factor == 1 || (scaling.h_factor == 2 && wide_enough));
  return scaling;
}

Region find_region(const Headers& headers, Box box) {
  Region region{headers.mcu_cols, headers.mcu_rows, 0, 0};
  for (int c = 0; c < headers.component_count; ++c) {
    const Component& component = headers.components[c];
    const Scaling scaling = Scaling::of(headers, component);
    const Range x =
        needed_samples(box.left, box.width, scaling.h_factor, scaling.smooth_h, component.width);
    const Range y =
        needed_samples(box.top, box.height, scaling.v_factor, scaling.smooth_v, component.height);
    region.left = std::min(region.left, x.first / (8 * component.h));
    region.top = std::min(region.top, y.first / (8 * component.v));
    region.right = std::max(region.right, x.last / (8 * component.h) + 1);
    region.bottom = std::max(region.bottom, y.last / (8 * component.v) + 1);
  }
  return region;
}

void Planes::begin(const Headers& headers, Box box, Region region, int32_t strip_rows) {
  headers_ = &headers;
  box_ = box;
  region_ = region;
  strip_top_ = region.top;
  next_row_ = box.top;
  looks_below_ = false;
  for (int c = 0; c < headers.component_count; ++c) {
    planes_[c].scaling = Scaling::of(headers, headers.components[c]);
    looks_below_ |= planes_[c].scaling.smooth_v;
  }
  size_t total = 0;
  for (int c = 0; c < headers.component_count; ++c) {
    const Component& component = headers.components[c];
    Plane& plane = planes_[c];
    plane.stride = kLeftPadding + (region.right - region.left) * 8 * component.h + kRowPadding;
    plane.left = region.left * 8 * component.h;
    plane.carried = looks_below_ ? 2 * component.v : 0;
    plane.rows = strip_rows * 8 * component.v;
    plane.top = region.top * 8 * component.v;
    total += size_t(plane.stride) * size_t(plane.carried + plane.rows);
  }
  uint8_t* at = samples_.reserve(total + kRowPadding) + kLeftPadding;
  for (int c = 0; c < headers.component_count; ++c) {
    Plane& plane = planes_[c];
    plane.samples = at + plane.stride * plane.carried;
    at += plane.stride * (plane.carried + plane.rows);
  }
  full_stride_ = box.width + 2 * 4 + 3 * kRowPadding;
  rows_.reserve(size_t(full_stride_) * kMaxComponents);
}

void Planes::move_to(int32_t top) {
  for (int c = 0; c < headers_->component_count; ++c) {
    Plane& plane = planes_[c];
    const int32_t moved = (top - strip_top_) * 8 * headers_->components[c].v;
    if (moved == 0) continue;
    uint8_t* to = plane.samples - plane.stride * plane.carried - kLeftPadding;
    std::memmove(to, to + plane.stride * moved, size_t(plane.stride) * size_t(plane.carried));
    plane.top += moved;
  }
  strip_top_ = top;
}

uint8_t* Planes::row(int c, int32_t y) const {
  const Plane& plane = planes_[c];
  return plane.samples + plane.stride * (y - plane.top);
}

uint8_t* Planes::block(int c, int32_t block_row, int32_t block_col) {
  return row(c, 8 * block_row) + 8 * block_col - planes_[c].left;
}

// The filters see the outermost sample again beyond the edges of the image.
void Planes::replicate_edges(int c, int32_t y) {
  const Component& component = headers_->components[c];
  uint8_t* samples = row(c, y);
  const int32_t end = component.width - planes_[c].left;
  if (planes_[c].left == 0) samples[-1] = samples[0];
  if (end <= (region_.right - region_.left) * 8 * component.h) samples[end] = samples[end - 1];
}

// Returns the row of component c for pixel row y, at full width, from the left edge of the box on.
const uint8_t* Planes::full_row(int c, int32_t y) {
  const Component& component = headers_->components[c];
  const Plane& plane = planes_[c];
  const Scaling& scaling = plane.scaling;
  if (scaling.h_factor == 1 && scaling.v_factor == 1) return row(c, y) + box_.left - plane.left;
  const int32_t near_y = y / scaling.v_factor;
  const int32_t below = y % scaling.v_factor;
  const int32_t far_y = std::clamp(near_y + (below ? 1 : -1), 0, component.height - 1);
  const int32_t first = box_.left / scaling.h_factor;
  const int32_t count = (box_.left + box_.width - 1) / scaling.h_factor - first + 1;
  const uint8_t* near = row(c, near_y) + first - plane.left;
  const uint8_t* far = row(c, far_y) + first - plane.left;
  uint8_t* out = rows_.data() + full_stride_ * c;
  if (scaling.smooth_h) replicate_edges(c, near_y);
  if (scaling.smooth_h && scaling.smooth_v) {
    replicate_edges(c, far_y);
    kernels().upsample_h2v2(near, far, out, count);
  } else if (scaling.smooth_h) {
    kernels().upsample_h2(near, out, count);
  } else if (scaling.smooth_v) {
    kernels().upsample_v2(near, far, out, count, below ? 2 : 1);
  } else if (scaling.h_factor > 1) {
    replicate(near, out, count, scaling.h_factor);
  } else {
    return near;
  }
  return out + box_.left % scaling.h_factor;
}

void Planes::write_rows(int32_t bottom, const Planar& out) {
  int32_t end = box_.top + box_.height;
  if (bottom < region_.bottom)
    end = std::min(end, (bottom * 8 - (looks_below_ ? 1 : 0)) * headers_->max_v);
  for (; next_row_ < end; ++next_row_) {
    const uint8_t* rows[kMaxComponents] = {};
    for (int c = 0; c < headers_->component_count; ++c) rows[c] = full_row(c, next_row_);
    uint8_t* to = out.row(next_row_ - box_.top);
    if (headers_->color == ColorSpace::ycc)
      kernels().convert_ycc(rows, to, out.line(), box_.width);
    else
      for (int c = 0; c < out.channels; ++c)
        std::memcpy(to + out.line() * size_t(c), rows[c], size_t(box_.width));
  }
}

}  // namespace headrace
