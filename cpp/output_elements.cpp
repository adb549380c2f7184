#include "output_elements.h"

#include <algorithm>

namespace headrace {
namespace {

constexpr size_t kBlock = 1024;  // pixels that stay in the L1 cache for all three channels

// Loops are unrolled, since the speed of a few instructions depends on where the linker puts them.
template <typename Element>
void look_up_pixels(const uint8_t* pixels, size_t count, const Element* table, Element* out) {
#pragma GCC unroll 4
  for (size_t i = 0; i < count * 3; i += 3) {
    out[i] = table[pixels[i]];
    out[i + 1] = table[256 + pixels[i + 1]];
    out[i + 2] = table[512 + pixels[i + 2]];
  }
}

template <typename Element>
void look_up_planes(const uint8_t* pixels, size_t count, const Element* table, Element* out) {
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, count);
    for (size_t channel = 0; channel < 3; ++channel)
#pragma GCC unroll 8
      for (size_t i = begin; i < end; ++i)
        out[channel * count + i] = table[channel * 256 + pixels[i * 3 + channel]];
  }
}

}  // namespace

void look_up(const uint8_t* pixels, size_t count, const void* table, size_t element_size,
             bool planar, void* out) {
  const auto look_up_as = [=](auto element) {
    using Element = decltype(element);
    const auto look_up_all = planar ? look_up_planes<Element> : look_up_pixels<Element>;
    look_up_all(pixels, count, static_cast<const Element*>(table), static_cast<Element*>(out));
  };
  if (element_size == 1)
    look_up_as(uint8_t());
  else if (element_size == 2)
    look_up_as(uint16_t());
  else
    look_up_as(uint32_t());
}

}  // namespace headrace
