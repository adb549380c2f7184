// CRC-32C (Castagnoli), the checksum of every field in the index.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Continues `crc` (0 at the start) over `size` bytes.
uint32_t crc32c(uint32_t crc, const uint8_t* data, size_t size);

}  // namespace headrace
