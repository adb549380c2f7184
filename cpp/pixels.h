// Bytes and pixels that someone else owns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.h"
#include "simd.h"

namespace headrace {

struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

struct Box {
  int32_t left, top, width, height;

  // Not empty, and all of it inside a picture of that size.
  bool lies_in(int32_t picture_width, int32_t picture_height) const {
    return left >= 0 && top >= 0 && width > 0 && height > 0 && width <= picture_width - left &&
           height <= picture_height - top;
  }
};

// A picture whose colours lie apart. A row is one line for each channel (red, green and blue, or
// grey alone), one after the other. Lines are as long as whole SIMD registers, and written to their
// end; behind the last there is room to read a line and kRowPadding bytes.
struct Planar {
  uint8_t* data = nullptr;
  int32_t width = 0, height = 0, channels = 0;

  static Planar reserve(Buffer<uint8_t>& memory, int32_t width, int32_t height, int32_t channels) {
    Planar planar{nullptr, width, height, channels};
    const size_t size = planar.stride() * size_t(height) + planar.line() + kRowPadding;
    uint8_t* data = memory.reserve(size + 63);  // lines begin where no access crosses a cache line
    planar.data = data + (-reinterpret_cast<uintptr_t>(data) & 63);
    return planar;
  }
  size_t line() const { return (size_t(width) + kLineUnit - 1) / kLineUnit * kLineUnit; }
  size_t stride() const { return line() * size_t(channels); }
  uint8_t* row(int32_t y) const { return data + size_t(y) * stride(); }
  Planar rows(int32_t y, int32_t count) const { return {row(y), width, count, channels}; }
};

}  // namespace headrace
