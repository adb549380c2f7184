#include "jpeg_progression.h"

#include <algorithm>

namespace headrace {

void Progression::begin() {
  for (auto& low : low_) low.fill(-1);
}

Status Progression::add(const Scan& scan) {
  for (int i = 0; i < scan.count; ++i) {
    auto& low = low_[scan.components[i].component];
    const int expected = scan.low_before == 0 ? -1 : scan.low_before;
    if (scan.first > 0 && low[0] < 0) return Status::unsupported;
    for (int k = scan.first; k <= scan.last; ++k) {
      if (low[k] != expected) return Status::unsupported;
      low[k] = int8_t(scan.low);
    }
  }
  return Status::ok;
}

bool Progression::is_complete(int component_count) const {
  return std::all_of(low_.begin(), low_.begin() + component_count, [](const auto& low) {
    return std::count(low.begin(), low.end(), 0) == kBlockSize;
  });
}

}  // namespace headrace
