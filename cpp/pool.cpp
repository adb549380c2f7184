#include "pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace penstock {
namespace {

// One call of `run_parallel`. Whoever works on it takes the next index until there is none.
struct Job {
  const std::function<void(size_t)>& task;
  const size_t count;
  size_t wanted;      // helpers that may still join, guarded by the pool's mutex
  size_t active = 0;  // helpers at work, guarded by the pool's mutex
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error = nullptr;

  void work() noexcept {
    size_t index;
    while ((index = next.fetch_add(1, std::memory_order_relaxed)) < count) {
      try {
        task(index);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
  }
};

class Pool {
 public:
  void run(Job& job) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (!stopping_ && helpers_.size() < job.wanted)
        if (!add_helper()) break;
      job.wanted = std::min(job.wanted, helpers_.size());
      if (job.wanted > 0) jobs_.push_back(&job);
    }
    wake_.notify_all();
    job.work();
    std::unique_lock<std::mutex> lock(mutex_);
    jobs_.remove(&job);
    idle_.wait(lock, [&] { return job.active == 0; });
  }

  void stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
    helpers_.clear();
  }

 private:
  // False if the system has no more threads: those that are there will do.
  bool add_helper() {
    try {
      helpers_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  void help() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      Job& job = *jobs_.front();
      if (--job.wanted == 0) jobs_.pop_front();
      ++job.active;
      lock.unlock();
      job.work();
      lock.lock();
      jobs_.remove(&job);  // nothing is left of it to join
      if (--job.active == 0) idle_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::list<Job*> jobs_;  // those that want more helpers
  std::vector<std::thread> helpers_;
  bool stopping_ = false;
};

// Intentional: never deleted. A thread that the interpreter abandoned at exit may still be inside
// `run`, and the child of a fork must not touch the threads that only its parent has.
std::atomic<Pool*> the_pool{nullptr};

Pool& get_pool() {
  Pool* pool = the_pool.load();
  if (pool) return *pool;
  Pool* fresh = new Pool;
  if (the_pool.compare_exchange_strong(pool, fresh)) return *fresh;
  delete fresh;  // another thread was faster
  return *pool;
}

const int at_fork = pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr); });

struct StopAtExit {
  ~StopAtExit() {
    if (Pool* pool = the_pool.load()) pool->stop();
  }
} stop_at_exit;

}  // namespace

void run_parallel(size_t count, int threads, const std::function<void(size_t)>& task) {
  const size_t workers = std::min(size_t(std::max(threads, 1)), count);
  Job job{task, count, workers > 1 ? workers - 1 : 0};
  if (job.wanted)
    get_pool().run(job);
  else
    job.work();
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace penstock
