// Dequantisation and inverse DCT, bit-identical to libjpeg-turbo's SIMD version of JDCT_ISLOW,
// including where extreme coefficients wrap or saturate at 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Two blocks at a time: `left` and `right` (64 row-major coefficients each) become 8 rows of 16
// samples. Clears both blocks.
using InverseDct = void (*)(int16_t* left, int16_t* right, const int16_t* quant, uint8_t* out,
                            size_t stride);

// The fastest variant for this CPU.
InverseDct inverse_dct();

}  // namespace headrace
