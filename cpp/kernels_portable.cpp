// The kernels for every CPU of the architecture: SSE2 on x86-64, NEON on aarch64.
#define HEADRACE_AVX2 0
#define HEADRACE_KERNELS kPortableKernels
#include "kernels/all.h"
