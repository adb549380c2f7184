#include "erase.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels.h"

namespace headrace {
namespace {

// A part of an axis, as places in the box.
struct Part {
  int32_t begin, end;
};

Part clip(int32_t begin, int32_t size, int32_t limit) {
  return {std::max(0, -begin), std::min(size, limit - begin)};
}

uint8_t to_byte(float level) {
  const float clipped = level > 0 ? level : 0;
  return uint8_t(std::nearbyint(clipped < 255 ? clipped : 255));
}

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Rounds to the nearest, ties to even, as NumPy does.
uint16_t to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

uint16_t to_float16(float value) {
  const uint32_t bits = bits_of(value), magnitude = bits & 0x7FFFFFFF;
  const auto sign = uint16_t(bits >> 16 & 0x8000);
  if (magnitude >= 0x47800000) return uint16_t(sign | 0x7C00);  // 65536 and above
  if (magnitude < 0x38800000) {                                 // below 2^-14: in units of 2^-24
    const auto units = uint16_t(std::nearbyint(std::fabs(value) * 16777216.0f));
    return uint16_t(sign | units);
  }
  const uint32_t shifted = magnitude - 0x38000000;
  return uint16_t(sign | (shifted + 0xFFF + (shifted >> 13 & 1)) >> 13);
}

// Calls write(index of an element, place in the box, channel) for all elements under the box.
template <typename Write>
void visit(const Elements& out, EraseBox box, Write write) {
  const Part rows = clip(box.top, box.height, out.height);
  const Part columns = clip(box.left, box.width, out.width);
  const size_t count = size_t(out.width) * size_t(out.height);
  const size_t step = out.planar ? 1 : 3, apart = out.planar ? count : 1;
  for (int32_t y = rows.begin; y < rows.end; ++y)
    for (int32_t x = columns.begin; x < columns.end; ++x) {
      const size_t pixel = size_t(box.top + y) * size_t(out.width) + size_t(box.left + x);
      const uint64_t place = uint64_t(y) * uint64_t(box.width) + uint64_t(x);
      for (size_t c = 0; c < 3; ++c) write(pixel * step + c * apart, place, c);
    }
}

template <typename T>
void set(const Elements& out, size_t index, T value) {
  static_cast<T*>(out.data)[index] = value;
}

void set_float(const Elements& out, size_t index, float value) {
  switch (out.element) {
    case Element::byte:
      return set(out, index, to_byte(value));
    case Element::float32:
      return set(out, index, value);
    case Element::float16:
      return set(out, index, to_float16(value));
    case Element::bfloat16:
      return set(out, index, to_bfloat16(value));
  }
}

constexpr int32_t kNoiseBlock = 64;  // pixels of a row at a time

// Writes the noise of `count` pixels from `pixel` on.
void write_noise(const Elements& out, size_t pixel, const uint32_t* words, size_t count) {
  float normals[kNoiseBlock * 3];
  if (out.element != Element::byte) kernels().make_normals(words, count * 3, normals);
  const size_t step = out.planar ? 1 : 3;
  const size_t apart = out.planar ? size_t(out.width) * size_t(out.height) : 1;
  for (size_t i = 0; i < count; ++i, pixel += 1)
    for (size_t c = 0; c < 3; ++c) {
      const size_t index = pixel * step + c * apart;
      if (out.element == Element::byte)
        set(out, index, uint8_t(words[i * 3 + c] >> 24));
      else
        set_float(out, index, normals[i * 3 + c]);
    }
}

}  // namespace

void erase(const Canvas& canvas, EraseBox box, const uint8_t levels[3]) {
  const Elements bytes{canvas.pixels, canvas.width, canvas.height, Element::byte, false};
  visit(bytes, box, [&](size_t index, uint64_t, size_t c) { set(bytes, index, levels[c]); });
}

void erase_elements(const Elements& out, EraseBox box, const double values[3]) {
  const float floats[3] = {float(values[0]), float(values[1]), float(values[2])};
  visit(out, box, [&](size_t index, uint64_t, size_t c) { set_float(out, index, floats[c]); });
}

void erase_with_noise(const Elements& out, EraseBox box, uint64_t seed) {
  const Part rows = clip(box.top, box.height, out.height);
  const Part columns = clip(box.left, box.width, out.width);
  for (int32_t y = rows.begin; y < rows.end; ++y)
    for (int32_t x = columns.begin; x < columns.end; x += kNoiseBlock) {
      const size_t count = size_t(std::min(kNoiseBlock, columns.end - x));
      uint32_t words[kNoiseBlock * 3];
      kernels().draw_noise(uint64_t(y) * uint64_t(box.width) + uint64_t(x), count, seed, words);
      write_noise(out, size_t(box.top + y) * size_t(out.width) + size_t(box.left + x), words,
                  count);
    }
}

}  // namespace headrace
