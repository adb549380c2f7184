// Crop-resize of RGB pixels, bit-identical to Pillow 13's antialiased `Image.resize`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pixels.h"
#include "resize_taps.h"

namespace penstock {

struct Extent {
  int32_t width, height;
};

// Resizes one picture after another. Keeps its scratch memory, so that nothing is allocated once it
// is warm; one instance per thread.
class Resizer {
 public:
  // Prepares to make the part `columns` x `rows` of a picture that is resized from `in` to `full`,
  // mirrored if `flip`. The box of the source that it takes; all sizes are at least 1.
  Box prepare(Extent in, Extent full, Range columns, Range rows, Filter filter, bool flip);

  // Makes that part from the pixels under that box.
  void resize(const Pixels& source, const Slot& slot);

 private:
  void resize_rows(const Pixels& source, const Slot& slot);
  void resize_columns_last(const Pixels& source, const Slot& slot);
  void resize_columns_first(const Pixels& source, const Slot& slot);
  void resample_row(const Pixels& source, int32_t y, uint8_t* out);
  void copy_tail(const Pixels& source);
  const uint8_t* readable_row(const Pixels& source, int32_t y) const;

  Taps columns_, rows_;
  bool keep_columns_ = false, keep_rows_ = false, rows_first_ = false;
  std::vector<uint8_t> between_;  // rows between the two passes
  std::vector<uint8_t> tail_;     // the last rows of the source, with room behind each
  int32_t tail_begin_ = 0;        // the first of them
  std::vector<const uint8_t*> window_;
};

}  // namespace penstock
