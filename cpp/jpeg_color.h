// Lines of full-size YCbCr in, lines of RGB out, with libjpeg's rounding.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Reads n samples of each line, and up to kRowPadding beyond; writes those to `out`, where a line
// begins every `line` bytes, and up to the next multiple of kLineUnit.
void convert_ycc(const uint8_t* const in[3], uint8_t* out, size_t line, int n);

}  // namespace headrace
