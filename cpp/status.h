// What became of a sample. The core never throws over bad data: it says so, and the caller decides.
#pragma once

#include <cstdint>

namespace headrace {

enum class Status : int32_t {
  ok = 0,
  unsupported =
      1,  // a valid kind that the native decoder leaves to Pillow (progressive, CMYK, PNG, ...)
  truncated = 2,  // the data ends before the picture does
  corrupt = 3,    // the data contradicts itself or the JPEG standard
  bad_box = 4,    // the box does not lie inside the picture
  too_large = 5,  // the picture claims more pixels than the limit allows
  changed = 6,    // the data does not have the checksum that was given with it
};

}  // namespace headrace
