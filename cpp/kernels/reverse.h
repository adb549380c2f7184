// Mirrors a row of RGB pixels.
#pragma once

#include "vector.h"

namespace headrace {
namespace {

// Reads a byte behind `in`.
void reverse_row(const uint8_t* in, uint8_t* out, size_t count) {
  const U8 places = make_bytes([](int i) { return i < 15 ? (4 - i / 3) * 3 + i % 3 : 0x80; });
  // Five pixels in each half, which writes a byte more: the next one overwrites it.
  for (; count > 10; count -= 10, out += 30) {
    const uint8_t* last = in + (count - 5) * 3;
    store_halves(out, out + 15, shuffle(load_halves<uint8_t>(last, last - 15), places));
  }
  for (; count > 0; --count, out += 3) std::memcpy(out, in + (count - 1) * 3, 3);
}

}  // namespace
}  // namespace headrace
