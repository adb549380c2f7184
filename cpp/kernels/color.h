// Blending and grey levels of RGB bytes, as Pillow computes them.
#pragma once

#include "vector.h"

namespace headrace {
namespace {

// Four bytes of each half, from byte 4 * part on, as 32-bit elements. Packing reverses it.
HEADRACE_INLINE I32 widen_part(U8 in, int part) {
  const U8 places = make_bytes([=](int i) { return i % 4 == 0 ? i / 4 + 4 * part : 0x80; });
  return as<int32_t>(shuffle(in, places));
}

// From `start` to `end`, in float, clipped to a byte, truncated. NaN becomes 0.
HEADRACE_INLINE I32 blend_levels(I32 start, I32 end, float factor) {
  using Float = Register<float>;
  const auto blend = [=](auto from, auto to) HEADRACE_INLINE_LAMBDA {
    const Float least{}, most = least + 255.0f;
    Float level = factor * __builtin_convertvector(to - from, Float);
    level = __builtin_convertvector(from, Float) + level;
    level = level > least ? level : least;
    level = level < most ? level : most;
    return __builtin_convertvector(level, Register<int32_t>);
  };
  return each<int32_t>(blend, start, end);
}

HEADRACE_INLINE void blend_vector(uint8_t* bytes, const uint8_t* from, float factor) {
  const U8 start = load<uint8_t>(from), end = load<uint8_t>(bytes);
  I32 mixed[4];
  for (int part = 0; part < 4; ++part)
    mixed[part] = blend_levels(widen_part(start, part), widen_part(end, part), factor);
  store(bytes, pack_unsigned(pack(mixed[0], mixed[1]), pack(mixed[2], mixed[3])));
}

void blend(uint8_t* bytes, const uint8_t* from, size_t size, float factor) {
  for (; size >= kVectorBytes; bytes += kVectorBytes, from += kVectorBytes, size -= kVectorBytes)
    blend_vector(bytes, from, factor);
  uint8_t last[2][kVectorBytes] = {};
  std::memcpy(last[0], bytes, size);
  std::memcpy(last[1], from, size);
  blend_vector(last[0], last[1], factor);
  std::memcpy(bytes, last[0], size);
}

// The levels of the first four pixels of each half. The weight of green needs 16 bits unsigned, but
// multiply_add() takes signed factors: so it is split in two.
HEADRACE_INLINE I32 grey_levels(U8 pixels) {
  const U8 red_green = make_bytes([](int i) { return i % 2 ? 0x80 : i / 4 * 3 + i / 2 % 2; });
  const U8 green_blue = red_green + as<uint8_t>(splat(uint16_t(1)));
  const I16 first = as<int16_t>(splat(int32_t(19235 << 16 | 19595)));
  const I16 second = as<int16_t>(splat(int32_t(7471 << 16 | 19235)));
  const I32 sum = multiply_add(as<int16_t>(shuffle(pixels, red_green)), first) +
                  multiply_add(as<int16_t>(shuffle(pixels, green_blue)), second);
  return (sum + splat(int32_t(0x8000))) >> 16;
}

void make_grey(const uint8_t* pixels, size_t count, uint8_t* grey) {
  // Reads four bytes beyond the 32 pixels of a step.
  for (; count * 3 >= 100; count -= 32, pixels += 96, grey += 32) {
    I32 levels[4];
    for (int i = 0; i < 4; ++i)
      levels[i] = grey_levels(load_halves<uint8_t>(pixels + 12 * i, pixels + 48 + 12 * i));
    store(grey, pack_unsigned(pack(levels[0], levels[1]), pack(levels[2], levels[3])));
  }
  for (; count > 0; --count, pixels += 3, ++grey)
    *grey = uint8_t((pixels[0] * 19595u + pixels[1] * 38470u + pixels[2] * 7471u + 0x8000u) >> 16);
}

}  // namespace
}  // namespace headrace
