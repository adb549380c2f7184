// Converts between planar lines and interleaved RGB.
#pragma once

#include "../pixels.h"
#include "vector.h"

namespace headrace {
namespace {

// 16 pixels are three parts of 16 bytes, and byte i of part t belongs to channel (t + i) % 3. Pixel
// p of channel c is byte (3 p + c) % 16 of its part: so one shuffle of a channel moves all of its
// pixels to their places (11 is the inverse of 3 modulo 16), and each part picks its own.
HEADRACE_INLINE U8 pick(U8 first, U8 second, U8 third) {
  const U8 seconds = make_bytes([](int i) { return i % 3 == 1 ? 0xFF : 0; });
  const U8 thirds = make_bytes([](int i) { return i % 3 == 2 ? 0xFF : 0; });
  return select(thirds, third, select(seconds, second, first));
}

// 32 pixels, from lines that begin every `line` bytes.
HEADRACE_INLINE void interleave_vector(const uint8_t* in, size_t line, uint8_t* out) {
  U8 spread[3];
  for (int c = 0; c < 3; ++c)
    spread[c] = shuffle(load<uint8_t>(in + size_t(c) * line),
                        make_bytes([=](int i) { return (i + 16 - c) * 11 % 16; }));
  for (size_t t = 0; t < 3; ++t)
    store_halves(out + 16 * t, out + 48 + 16 * t,
                 pick(spread[t], spread[(t + 1) % 3], spread[(t + 2) % 3]));
}

HEADRACE_INLINE void deinterleave_vector(const uint8_t* in, uint8_t* out, size_t line) {
  U8 parts[3];
  for (size_t t = 0; t < 3; ++t) parts[t] = load_halves<uint8_t>(in + 16 * t, in + 48 + 16 * t);
  for (int c = 0; c < 3; ++c)
    store(out + size_t(c) * line, shuffle(pick(parts[c], parts[(c + 2) % 3], parts[(c + 1) % 3]),
                                          make_bytes([=](int i) { return (i * 3 + c) % 16; })));
}

void interleave(const Planar& from, uint8_t* out, ptrdiff_t stride) {
  const size_t count = size_t(from.width), line = from.channels == 3 ? from.line() : 0;
  for (int32_t y = 0; y < from.height; ++y, out += stride) {
    const uint8_t* in = from.row(y);
    size_t i = 0;
    for (; i + 32 <= count; i += 32) interleave_vector(in + i, line, out + i * 3);
    if (i == count) continue;
    uint8_t last[32 * 3];  // since nothing may be written behind a row
    interleave_vector(in + i, line, last);
    std::memcpy(out + i * 3, last, (count - i) * 3);
  }
}

void deinterleave(const uint8_t* in, size_t stride, const Planar& to) {
  const size_t count = size_t(to.width), line = to.line();
  uint8_t last[32 * 3] = {};  // since nothing may be read behind a row
  for (int32_t y = 0; y < to.height; ++y, in += stride) {
    uint8_t* out = to.row(y);
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
      for (size_t t = 0; t < 2; ++t) __builtin_prefetch(in + i * 3 + 1024 + 64 * t);
      deinterleave_vector(in + i * 3, out + i, line);
    }
    if (i == count) continue;
    std::memcpy(last, in + i * 3, (count - i) * 3);
    deinterleave_vector(last, out + i, line);
  }
}

}  // namespace
}  // namespace headrace
