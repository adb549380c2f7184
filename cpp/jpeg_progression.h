// How far the scans of a progressive JPEG have come.
#pragma once

#include <array>
#include <cstdint>

#include "jpeg_headers.h"

namespace headrace {

// Accepts complete files only: each coefficient of each component arrives once, bit after bit, down
// to the last. libjpeg-turbo decodes others too, and warns of most; it smooths the blocks of
// incomplete files and has rules of its own for bits that come twice.
class Progression {
 public:
  void begin();
  // Notes a scan. Unsupported if it repeats known bits or leaves some out.
  Status add(const Scan& scan);
  bool is_complete(int component_count) const;

 private:
  // Bits of each coefficient that are missing; -1: all.
  std::array<std::array<int8_t, kBlockSize>, kMaxComponents> low_;
};

}  // namespace headrace
