#include "kernels.h"

#include <atomic>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace headrace {
namespace {

bool cpu_is_fast() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
  return false;
#endif
}

const Kernels* const fastest = cpu_is_fast() ? &kFastKernels : &kPortableKernels;
std::atomic<const Kernels*> chosen{fastest};

}  // namespace

const Kernels& kernels() { return *chosen.load(std::memory_order_relaxed); }

void force_portable(bool portable) { chosen = portable ? &kPortableKernels : fastest; }

}  // namespace headrace
