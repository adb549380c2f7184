#include "elements.h"

#include <algorithm>

namespace headrace {
namespace {

constexpr size_t kBlock = 1024;  // pixels that stay in the nearest cache for all three channels

template <typename Element>
void look_up_interleaved(const uint8_t* pixels, size_t count, const Element* table, Element* out) {
  for (size_t i = 0; i < count * 3; i += 3) {
    out[i] = table[pixels[i]];
    out[i + 1] = table[256 + pixels[i + 1]];
    out[i + 2] = table[512 + pixels[i + 2]];
  }
}

template <typename Element>
void look_up_planar(const uint8_t* pixels, size_t count, const Element* table, Element* out) {
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, count);
    for (size_t channel = 0; channel < 3; ++channel)
      for (size_t i = begin; i < end; ++i)
        out[channel * count + i] = table[channel * 256 + pixels[i * 3 + channel]];
  }
}

template <typename Element>
void look_up_elements(const uint8_t* pixels, size_t count, const void* table, bool planar,
                      void* out) {
  const auto* from = static_cast<const Element*>(table);
  auto* to = static_cast<Element*>(out);
  if (planar)
    look_up_planar(pixels, count, from, to);
  else
    look_up_interleaved(pixels, count, from, to);
}

}  // namespace

void look_up(const uint8_t* pixels, size_t count, const void* table, size_t element_size,
             bool planar, void* out) {
  if (element_size == 1)
    look_up_elements<uint8_t>(pixels, count, table, planar, out);
  else if (element_size == 2)
    look_up_elements<uint16_t>(pixels, count, table, planar, out);
  else
    look_up_elements<uint32_t>(pixels, count, table, planar, out);
}

}  // namespace headrace
