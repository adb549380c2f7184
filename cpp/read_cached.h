// Reads many small ranges of a file, as far as the system has them in memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

struct CachedRange {
  int64_t offset, size, place;  // `size` bytes at `offset` of the file go to `place` of the memory
};

// Returns true if all ranges were in the page cache, and are in `memory` now. Otherwise nothing is
// waited for, and what `memory` holds is undefined.
bool read_cached(int fd, const CachedRange* ranges, size_t count, uint8_t* memory);

}  // namespace headrace
