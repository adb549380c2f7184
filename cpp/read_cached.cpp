#include "read_cached.h"

#include <sys/uio.h>

namespace headrace {

bool read_cached(int fd, const CachedRange* ranges, size_t count, uint8_t* memory) {
#ifdef RWF_NOWAIT
  for (size_t i = 0; i < count; ++i) {
    const iovec to{memory + ranges[i].place, size_t(ranges[i].size)};
    if (preadv2(fd, &to, 1, ranges[i].offset, RWF_NOWAIT) != ranges[i].size) return false;
  }
  return true;
#else
  return false;
#endif
}

}  // namespace headrace
