// The threads of the core: started on first use, kept until the process ends.
#pragma once

#include <cstddef>
#include <functional>

namespace penstock {

// Calls `task(i)` once for every i below `count`, in any order, on the calling thread and at most
// `threads - 1` others, and returns when all are done. An exception of a task is thrown here. May
// be called from several threads at once, and in the child after a fork.
void run_parallel(size_t count, int threads, const std::function<void(size_t)>& task);

}  // namespace penstock
