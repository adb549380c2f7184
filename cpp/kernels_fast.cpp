// The kernels for CPUs that have more than the architecture guarantees: see kernels.h.
//
// Everything that other files share is included first, for the ordinary target: the linker keeps
// one copy of an inline function, which may be the one from here.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "jpeg_bands.h"
#include "jpeg_entropy.h"
#include "kernels.h"
#include "resize_weights.h"
#include "warp.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define HEADRACE_AVX2 1
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,pclmul"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,fma,bmi,bmi2,pclmul")
#endif
#else
#define HEADRACE_AVX2 0
#if defined(__aarch64__)
#pragma GCC target("+crc")
#endif
#endif

#define HEADRACE_KERNELS kFastKernels
#include "kernels/all.h"

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif
