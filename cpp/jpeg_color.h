// Rows of three full-size components in, interleaved RGB out, with libjpeg's fixed-point factors.
#pragma once

#include <cstdint>

#include "jpeg_headers.h"

namespace penstock {

// Reads n samples of each row, and up to kRowPadding beyond; writes exactly 3 * n bytes.
using ColorConverter = void (*)(const uint8_t* const rows[3], uint8_t* out, int n);

// The fastest variant for this CPU.
ColorConverter color_converter(ColorSpace color);

}  // namespace penstock
