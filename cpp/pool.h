// The threads of the core: started on first use, kept until the process ends.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

namespace headrace {

class Pool;

// Whose jobs they are: at most so many threads of the pool work on them at one time, on the oldest
// first. So one job follows the other without a pause.
class Crew {
 public:
  explicit Crew(int threads) : limit_(size_t(threads)) {}  // at least one
  size_t limit() const { return limit_; }

 private:
  friend class Pool;
  const size_t limit_;
  // Guarded by the pool's mutex.
  const Pool* pool_ = nullptr;  // that these are counted in: another one after a fork
  size_t jobs_ = 0, active_ = 0;
};

// Calls `task(i)` once for every i below `count`, in any order, on threads of the pool. An
// exception of a task ends it.
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
  // Returns when all is done. An exception of a task is thrown here. Not after a fork.
  void wait();
  // The time of all threads that worked on it, when it is done.
  std::chrono::nanoseconds busy() const { return std::chrono::nanoseconds(busy_); }

 private:
  friend class Pool;
  const std::shared_ptr<Crew> crew_;
  const size_t count_;
  const std::function<void(size_t)> task_;
  Pool* const pool_;   // that of the process in which it began
  size_t active_ = 0;  // threads of the pool at work, guarded by its mutex
  std::atomic<size_t> next_{0};
  std::atomic<int64_t> busy_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

// Does all of a job before it returns, on the calling thread and at most `threads - 1` others. May
// be called from several threads at once, and in the child after a fork.
void run_parallel(size_t count, int threads, std::function<void(size_t)> task);

}  // namespace headrace
