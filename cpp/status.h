// The result for one sample. The core never throws because of bad data: the caller has the policy.
#pragma once

#include <cstdint>

namespace headrace {

enum class Status : int32_t {
  ok = 0,
  unsupported = 1,  // valid, but left to Pillow (CMYK, WebP, incomplete scans, ...)
  truncated = 2,    // the data end before the image does
  corrupt = 3,      // the data contradict themselves or the JPEG standard
  bad_box = 4,      // the box does not lie inside the image
  too_large = 5,    // the image has more pixels than the limit allows
  changed = 6,      // the data do not have the expected checksum
  other_size = 7,   // the image does not have the expected size
};

}  // namespace headrace
