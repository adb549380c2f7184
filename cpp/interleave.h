// Converts between planar pixels, which the core works on, and interleaved RGB.
#pragma once

#include "kernels.h"
#include "pixels.h"

namespace headrace {

// Writes exactly width * 3 bytes to each row of `out`; rows are `stride` bytes apart. Greyscale is
// repeated three times.
inline void interleave(const Planar& from, uint8_t* out, ptrdiff_t stride) {
  kernels().interleave(from, out, stride);
}

// Fills `to`, which has three channels, from such rows. Reads nothing behind a row.
inline void deinterleave(const uint8_t* in, size_t stride, const Planar& to) {
  kernels().deinterleave(in, stride, to);
}

}  // namespace headrace
