// Views of bytes and pixels; the caller owns the memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.h"

namespace headrace {

// Bytes that kernels may read past the end of a row, and write where they say so.
constexpr int kRowPadding = 64;

// Bytes that kernels process at a time: the length of a planar line is a multiple of it.
constexpr size_t kLineUnit = 32;

struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

struct Box {
  int32_t left, top, width, height;

  // Returns true if the box is not empty and lies inside an image of that size.
  bool lies_in(int32_t image_width, int32_t image_height) const {
    return left >= 0 && top >= 0 && width > 0 && height > 0 && width <= image_width - left &&
           height <= image_height - top;
  }
};

// Returns a length rounded up to what kernels process at a time.
constexpr size_t pad_line(int32_t width) {
  return (size_t(width) + kLineUnit - 1) / kLineUnit * kLineUnit;
}

// A planar image. A row consists of one line per channel (red, green and blue, or grey alone), one
// after the other. Kernels write lines to their end; behind the last line they may read another one
// and kRowPadding bytes.
struct Planar {
  uint8_t* data = nullptr;
  int32_t width = 0, height = 0, channels = 0;
  size_t spacing = 0;  // of lines, if this is a part of an image, which is only read

  static Planar reserve(Buffer<uint8_t>& memory, int32_t width, int32_t height, int32_t channels) {
    Planar planar{nullptr, width, height, channels};
    const size_t size = planar.stride() * size_t(height) + planar.line() + kRowPadding;
    uint8_t* data = memory.reserve(size + 63);  // aligned, so that no access crosses a cache line
    planar.data = data + (-reinterpret_cast<uintptr_t>(data) & 63);
    return planar;
  }
  size_t line() const { return spacing ? spacing : pad_line(width); }
  size_t stride() const { return line() * size_t(channels); }
  uint8_t* row(int32_t y) const { return data + size_t(y) * stride(); }
  Planar rows(int32_t y, int32_t count) const { return {row(y), width, count, channels, spacing}; }
  // Returns a part, without copying.
  Planar cut(Box box) const {
    return {row(box.top) + box.left, box.width, box.height, channels, line()};
  }
};

}  // namespace headrace
