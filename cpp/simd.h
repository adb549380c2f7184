// Which instructions the core may use. Every routine gives the same results on every path.
#pragma once

#include <atomic>

namespace penstock {

// False forces the portable path everywhere: for tests, and to compare speeds.
inline std::atomic<bool> simd_allowed{true};

inline bool use_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && simd_allowed.load(std::memory_order_relaxed);
#else
  return false;
#endif
}

}  // namespace penstock
