// Quantised coefficients in, a baseline JPEG with the shortest Huffman codes out.
#pragma once

#include <cstdint>
#include <vector>

#include "jpeg_blocks.h"
#include "jpeg_headers.h"

namespace headrace {

// Appends the tables, the frame and one interleaved scan of an image: everything between the
// application segments and EOI. Returns false if baseline JPEG cannot code a coefficient; `out` is
// to be discarded then.
bool encode_baseline(const Headers& headers, const BlockPlanes& planes, std::vector<uint8_t>& out);

}  // namespace headrace
