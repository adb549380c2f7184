// RGB pixels someone owns, and what may be done to them between the resize and the batch.
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

// The functions below work on `count` pixels without gaps between the rows.

// Pillow's ImageEnhance, bit-identical: factors of brightness, contrast and saturation, applied in
// the order of `order`, a permutation of 0, 1, 2. A factor of 1 changes nothing.
void jitter_color(uint8_t* pixels, size_t count, const float factors[3], const uint8_t order[3]);

// Adds `offset` to each channel, rounds to the nearest (ties to even) and clips to a byte.
void add_offset(uint8_t* pixels, size_t count, const float offset[3]);

// Replaces each byte by the entry of its channel in `table`: 3 x 256 elements of `element_size`
// bytes (1, 2 or 4). With `planar`, all of one channel come before the next channel.
void look_up(const uint8_t* pixels, size_t count, const void* table, size_t element_size,
             bool planar, void* out);

}  // namespace penstock
