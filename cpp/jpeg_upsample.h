// One row of samples brought to full width: libjpeg's "fancy" triangle filters and plain copies.
#pragma once

#include <cstdint>

namespace headrace {

// Rows are read one sample beyond both ends and up to kRowPadding further to the right; they are
// written up to kRowPadding beyond the end.
struct Upsampler {
  // in[-1..n] -> out[0..2n)
  void (*h2)(const uint8_t* in, uint8_t* out, int n);
  // The row itself and its neighbour above (bias 1) or below (bias 2) -> out[0..n)
  void (*v2)(const uint8_t* near, const uint8_t* far, uint8_t* out, int n, int bias);
  // Both at once -> out[0..2n)
  void (*h2v2)(const uint8_t* near, const uint8_t* far, uint8_t* out, int n);
};

// The fastest variant for this CPU.
const Upsampler& upsampler();

// Each sample `factor` times.
void replicate(const uint8_t* in, uint8_t* out, int n, int factor);

}  // namespace headrace
