// The threads of the core: started on first use, kept until the process ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

namespace penstock {

class Pool;

// Whose jobs they are: at most so many threads of the pool work on them at one time, on the oldest
// first. So one job follows the other without a pause.
class Crew {
 public:
  explicit Crew(int threads) : limit_(size_t(threads < 1 ? 1 : threads)) {}

 private:
  friend class Pool;
  const size_t limit_;
  size_t active_ = 0;  // guarded by the pool's mutex
};

// Calls `task(i)` once for every i below `count`, in any order, on threads of the pool.
class Job {
 public:
  // Begins at once.
  Job(std::shared_ptr<Crew> crew, size_t count, std::function<void(size_t)> task);
  // Drops what has not begun, and waits for the rest.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Works on it in the calling thread too, until nothing is left to begin.
  void help() noexcept;
  // Returns when all is done. An exception of a task is thrown here.
  void wait();

 private:
  friend class Pool;
  const std::shared_ptr<Crew> crew_;
  const size_t count_;
  const std::function<void(size_t)> task_;
  Pool* const pool_;   // that of the process in which it began
  size_t active_ = 0;  // threads of the pool at work, guarded by its mutex
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

// Does all of a job before it returns, on the calling thread and at most `threads - 1` others. May
// be called from several threads at once, and in the child after a fork.
void run_parallel(size_t count, int threads, std::function<void(size_t)> task);

}  // namespace penstock
