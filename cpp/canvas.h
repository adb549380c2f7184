// The pixels and the elements that programs work on; the caller owns the memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// RGB bytes without gaps.
struct Canvas {
  uint8_t* pixels = nullptr;
  int32_t width = 0, height = 0;

  size_t stride() const { return size_t(width) * 3; }
  size_t count() const { return size_t(width) * size_t(height); }
  size_t size() const { return count() * 3; }
  uint8_t* row(int32_t y) const { return pixels + size_t(y) * stride(); }
};

enum class Element { byte, float32, float16, bfloat16 };

constexpr size_t size_of(Element element) {
  return element == Element::byte ? 1 : element == Element::float32 ? 4 : 2;
}

// A finished result, channels last, or first if it is planar.
struct Elements {
  void* data = nullptr;
  int32_t width = 0, height = 0;
  Element element = Element::byte;
  bool planar = false;
};

}  // namespace headrace
