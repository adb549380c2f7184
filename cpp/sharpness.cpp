#include "sharpness.h"

#include <cstring>
#include <utility>

#include "kernels.h"

namespace headrace {

void change_sharpness(const Canvas& canvas, float factor, SharpnessMemory& memory) {
  if (factor == 1.0f || canvas.width < 3 || canvas.height < 3) return;
  const size_t stride = canvas.stride(), inner = stride - 6;
  // Rows as they were, since they are changed in place; and a smoothed row.
  uint8_t* above = memory.rows.reserve(stride * 3);
  uint16_t* sums = memory.sums.reserve(stride);
  uint8_t *here = above + stride, *smooth = here + stride;
  std::memcpy(above, canvas.row(0), stride);
  for (int32_t y = 1; y + 1 < canvas.height; ++y) {
    std::memcpy(here, canvas.row(y), stride);
    kernels().smooth_row(above + 3, here + 3, canvas.row(y + 1) + 3, sums, smooth, inner);
    kernels().blend(canvas.row(y) + 3, smooth, inner, factor);
    std::swap(above, here);
  }
}

}  // namespace headrace
