// Boxes that hide a part of a picture: on its bytes, or on the finished elements.
#pragma once

#include <cstdint>

#include "canvas.h"

namespace headrace {

// What lies outside of the picture is left out.
struct EraseBox {
  int32_t left, top, width, height;
};

void erase(const Canvas& canvas, EraseBox box, const uint8_t levels[3]);

// Writes a value for each channel, in units of the elements.
void erase_elements(const Elements& out, EraseBox box, const double values[3]);

// Writes normal noise of mean 0 and deviation 1 to floats, uniform noise to bytes. An element
// depends on the seed, its place in the box, and the size of the box.
void erase_with_noise(const Elements& out, EraseBox box, uint64_t seed);

}  // namespace headrace
