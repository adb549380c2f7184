// The thread pool of the core: started on first use, kept until the process ends.
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

// Limits how many threads of the pool work on its jobs at a time. They take the oldest job first,
// so that one job follows the other without a pause.
class Crew {
 public:
  explicit Crew(int threads) : limit_(size_t(threads)) {}  // at least one
  size_t limit() const { return limit_; }

 private:
  friend class Pool;
  const size_t limit_;
  // Guarded by the pool's mutex.
  const Pool* pool_ = nullptr;  // whose jobs are counted here: another one after a fork
  size_t jobs_ = 0, active_ = 0;
};

// Calls `task(i)` once for every i below `count`, in any order, on threads of the pool. An
// exception cancels the tasks that have not begun.
class Job {
 public:
  // Starts immediately.
  Job(std::shared_ptr<Crew> crew, size_t count, std::function<void(size_t)> task);
  // Cancels the tasks that have not begun and waits for the others.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Works on the job in the calling thread too, until no task is left to begin.
  void help() noexcept;
  // Returns when all tasks are done; rethrows the exception of a task. Throws std::logic_error in
  // the child of a fork.
  void wait();
  // The time of all threads that worked on the job; valid when it is done.
  std::chrono::nanoseconds busy() const { return std::chrono::nanoseconds(busy_); }

 private:
  friend class Pool;
  const std::shared_ptr<Crew> crew_;
  const size_t count_;
  const std::function<void(size_t)> task_;
  Pool* const pool_;   // of the process that started the job
  size_t active_ = 0;  // threads of the pool that work on it, guarded by its mutex
  std::atomic<size_t> next_{0};
  std::atomic<int64_t> busy_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

// Runs all tasks on the calling thread and at most `threads - 1` others, then returns. Thread-safe,
// also in the child of a fork.
void run_parallel(size_t count, int threads, std::function<void(size_t)> task);

}  // namespace headrace
