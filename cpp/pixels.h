// Bytes and RGB pixels that someone else owns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

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

// Exactly width * 3 bytes of each row, rows `stride` bytes apart.
template <typename Byte>
struct Picture {
  Byte* data = nullptr;
  int32_t width = 0, height = 0;
  size_t stride = 0;

  Byte* row(int32_t y) const { return data + size_t(y) * stride; }
};

using Pixels = Picture<const uint8_t>;  // to read
using Slot = Picture<uint8_t>;          // to fill

}  // namespace penstock
