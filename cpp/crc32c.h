// CRC-32C (Castagnoli), the checksum of every field in the index.
#pragma once

#include "kernels.h"

namespace headrace {

// Continues `crc` (0 at the start) over `size` bytes.
inline uint32_t crc32c(uint32_t crc, const uint8_t* data, size_t size) {
  return ~kernels().update_crc32c(~crc, data, size);
}

}  // namespace headrace
