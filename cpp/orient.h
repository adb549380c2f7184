// EXIF orientation: a picture is stored turned or mirrored, and shown upright.
//
// Orientation 1 is upright. The others are stored: 2 mirrored, 3 turned by 180 degrees, 4 mirrored
// and turned by 180, 5 transposed, 6 turned by 90 to the left, 7 transposed and turned by 180, 8
// turned by 90 to the right (TIFF 6.0; Pillow's exif_transpose undoes the same).
#pragma once

#include "pixels.h"
#include "resize.h"

namespace headrace {

constexpr bool swaps_sides(uint8_t orientation) { return orientation >= 5; }

// Returns where a box of the upright picture lies in the stored one, which has this size.
Box find_stored(Box upright, uint8_t orientation, int32_t width, int32_t height);

// Fills `upright` from the stored pixels of the same box. It has as many channels as the source,
// three for RGB.
void turn_upright(const Source& stored, uint8_t orientation, const Planar& upright);

}  // namespace headrace
