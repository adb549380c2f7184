#include "pool.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace headrace {

class Pool {
 public:
  void begin(Job& job) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      add_job(job);
      while (!stopping_ && helpers_.size() < wanted_)
        if (!add_helper()) break;
    }
    wake_.notify_all();
  }

  // Returns when no thread works on the job and none will begin to.
  void end(Job& job) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (helpers_.empty()) work_on(job, lock);  // no thread could be started
    idle_.wait(lock, [&] { return job.active_ == 0 && (stopping_ || job.next_ >= job.count_); });
    remove_job(job);
  }

  void stop() {
    std::vector<std::thread> helpers;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      helpers.swap(helpers_);
    }
    wake_.notify_all();
    idle_.notify_all();
    for (std::thread& helper : helpers) helper.join();
  }

 private:
  // Returns false if the system has no more threads: the job then runs with those that there are.
  bool add_helper() {
    try {
      helpers_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  // A crew that has jobs gets all the threads that it may use.
  void add_job(Job& job) {
    Crew& crew = *job.crew_;
    if (crew.pool_ != this) {
      crew.pool_ = this;
      crew.jobs_ = crew.active_ = 0;
    }
    if (crew.jobs_++ == 0) wanted_ += crew.limit_;
    jobs_.push_back(&job);
  }

  void remove_job(Job& job) {
    const auto place = std::find(jobs_.begin(), jobs_.end(), &job);
    if (place == jobs_.end()) return;
    jobs_.erase(place);
    if (--job.crew_->jobs_ == 0) wanted_ -= job.crew_->limit_;
  }

  void work_on(Job& job, std::unique_lock<std::mutex>& lock) {
    const std::shared_ptr<Crew> crew = job.crew_;  // the job may be destroyed meanwhile
    ++crew->active_;
    ++job.active_;
    lock.unlock();
    job.help();
    lock.lock();
    --crew->active_;
    remove_job(job);  // it has no task left to begin
    if (--job.active_ == 0) idle_.notify_all();
  }

  // Returns the oldest job whose crew may use another thread.
  Job* find_open() const {
    const auto open = std::find_if(jobs_.begin(), jobs_.end(), [](const Job* job) {
      return job->crew_->active_ < job->crew_->limit_;
    });
    return open == jobs_.end() ? nullptr : *open;
  }

  void help() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      Job* job = nullptr;
      wake_.wait(lock, [&] { return stopping_ || (job = find_open()) != nullptr; });
      if (stopping_) return;
      work_on(*job, lock);
      wake_.notify_one();  // the crew may use another thread now
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::list<Job*> jobs_;  // that may have tasks left to begin
  std::vector<std::thread> helpers_;
  size_t wanted_ = 0;  // threads, summed over the crews that have jobs
  bool stopping_ = false;
};

namespace {

// intentional: never deleted. A thread that the interpreter abandoned at exit may still wait for a
// job, and the child of a fork must not touch threads that only its parent has.
std::atomic<Pool*> the_pool{nullptr};

Pool& get_pool() {
  Pool* pool = the_pool.load();
  if (pool) return *pool;
  auto fresh = std::make_unique<Pool>();
  if (the_pool.compare_exchange_strong(pool, fresh.get())) return *fresh.release();
  return *pool;  // another thread was faster
}

const int at_fork = pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr); });

struct StopAtExit {
  ~StopAtExit() {
    if (Pool* pool = the_pool.load()) pool->stop();
  }
} stop_at_exit;

}  // namespace

Job::Job(std::shared_ptr<Crew> crew, size_t count, std::function<void(size_t)> task)
    : crew_(std::move(crew)), count_(count), task_(std::move(task)), pool_(&get_pool()) {
  pool_->begin(*this);
}

Job::~Job() {
  next_ = count_;
  if (pool_ == the_pool.load()) pool_->end(*this);  // the child of a fork does not have its threads
}

void Job::help() noexcept {
  const auto begin = std::chrono::steady_clock::now();
  size_t index;
  while ((index = next_.fetch_add(1, std::memory_order_relaxed)) < count_) {
    try {
      task_(index);
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
      next_ = count_;
    }
  }
  busy_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
}

void Job::wait() {
  if (pool_ != the_pool.load()) throw std::logic_error("the job was started in the parent process");
  pool_->end(*this);
  if (error_) std::rethrow_exception(error_);
}

void run_parallel(size_t count, int threads, std::function<void(size_t)> task) {
  const size_t workers = std::min(size_t(std::max(threads, 1)), count);
  if (workers < 2) {
    for (size_t i = 0; i < count; ++i) task(i);
    return;
  }
  Job job(std::make_shared<Crew>(int(workers) - 1), count, std::move(task));
  job.help();
  job.wait();
}

}  // namespace headrace
