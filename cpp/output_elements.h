// Converts bytes to the elements of a batch, such as normalised floats, channels last or first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Replaces each byte of `count` RGB pixels by the entry of its channel in `table`: 3 x 256 elements
// of `element_size` bytes (1, 2 or 4). With `planar`, each channel is contiguous; otherwise `out`
// may be `pixels` if `element_size` is 1.
void look_up(const uint8_t* pixels, size_t count, const void* table, size_t element_size,
             bool planar, void* out);

}  // namespace headrace
