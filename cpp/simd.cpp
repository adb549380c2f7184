#include "simd.h"

#include <atomic>

namespace headrace {
namespace {

std::atomic<bool> portable_forced{false};

bool cpu_has_avx2() {
#if HEADRACE_AVX2
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
#else
  return false;
#endif
}

}  // namespace

bool use_avx2() {
  static const bool has_avx2 = cpu_has_avx2();
  return has_avx2 && !portable_forced.load(std::memory_order_relaxed);
}

void force_portable(bool portable) { portable_forced.store(portable, std::memory_order_relaxed); }

}  // namespace headrace
