// Between planar pixels, which all work is done on, and the RGB bytes that others give and take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pixels.h"

namespace headrace {

// Writes exactly width * 3 bytes of each row of `out`, rows `stride` bytes apart; grey three times.
void interleave(const Planar& from, uint8_t* out, size_t stride);

// Fills `to`, which has three channels, from such rows.
void deinterleave(const uint8_t* in, size_t stride, const Planar& to);

}  // namespace headrace
