// Crop-resize of RGB pixels, bit-identical to Pillow 13's antialiased `Image.resize`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pixels.h"
#include "resize_taps.h"

namespace penstock {

// Resizes one picture after another. Keeps its scratch memory, so that nothing is allocated once it
// is warm; one instance per thread.
class Resizer {
 public:
  // Fills `slot` with `source`, resized and then mirrored if `flip`. All sizes are at least 1.
  void resize(const Pixels& source, Filter filter, bool flip, const Slot& slot);

 private:
  void resize_columns_first(const Pixels& source, const Slot& slot);
  void resize_rows_first(const Pixels& source, const Slot& slot);
  void copy_tail(const Pixels& source);
  const uint8_t* readable_row(const Pixels& source, int32_t y) const;

  Taps columns_, rows_;
  std::vector<uint8_t> between_;  // rows between the two passes
  std::vector<uint8_t> tail_;     // the last rows of the source, with room behind each
  int32_t tail_begin_ = 0;        // the first of them
  std::vector<const uint8_t*> window_;
};

}  // namespace penstock
