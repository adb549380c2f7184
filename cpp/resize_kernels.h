// The two passes of a resize over rows of bytes: sums of products, rounded and clipped to a byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "resize_taps.h"

namespace penstock {

// Rows that one call of `resample_columns` works on: they share the loads of the weights.
constexpr int32_t kRowGroup = 4;

// Both passes read up to kRowPadding past the end of a row.

// Horizontal pass: makes `width` pixels of each of the kRowGroup rows `out` from those of `in`.
void resample_columns(const uint8_t* const* in, uint8_t* const* out, const Taps& taps,
                      int32_t width);

// Vertical pass: makes `bytes` bytes of the row `out`, which is output `output` of the taps, from
// the same bytes of the rows in `window`, two for each of `taps.pairs`.
void resample_rows(const uint8_t* const* window, uint8_t* out, size_t bytes, const Taps& taps,
                   int32_t output);

}  // namespace penstock
