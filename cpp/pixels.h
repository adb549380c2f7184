// RGB pixels that someone else owns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

// RGB pixels to read, rows `stride` bytes apart.
struct Pixels {
  const uint8_t* data = nullptr;
  int32_t width = 0, height = 0;
  size_t stride = 0;

  const uint8_t* row(int32_t y) const { return data + size_t(y) * stride; }
};

// Where a picture goes: exactly width * 3 bytes of each row, rows `stride` bytes apart.
struct Slot {
  uint8_t* data = nullptr;
  int32_t width = 0, height = 0;
  size_t stride = 0;

  uint8_t* row(int32_t y) const { return data + size_t(y) * stride; }
};

}  // namespace penstock
