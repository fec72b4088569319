// SPDX-License-Identifier: Apache-2.0
//
// Threads that execute ready operations of one kind (one device's compute, its copies, the
// priority lane, the Python lane).
//
// Threads are created when there is work nobody is free to take, up to the limit; a thread that
// blocks inside an operation does not count towards it.  A thread without work looks for some for
// a few microseconds, then sleeps.  At most one thread searches at a time, and one that is being
// woken counts as searching: a burst of pushes costs one wake-up, and whoever finds work while
// more is queued wakes the next.
//
// Operations with MX_PUSH_PARALLEL run on one thread of the pool at a time, because an OpenMP runtime
// keeps a team of threads per calling thread and two teams fight over the cores.  It is the same
// thread as long as it has little other work: general work goes to others first, and while it runs an
// operation that is not small (MX_PUSH_INLINE), any other thread may take the role over.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "mx_core/spin.hpp"
#include "task_queue.hpp"
#include "waiter.hpp"

namespace mx::engine {

class WorkerPool;

// An operation that runs now: both live as long as the process.
struct Running {
  const char* name;
  const char* origin;
};

// Executes blocks for a pool.  Called on the pool's threads, without a lock.
class Runner {
 public:
  virtual void run(Block* block, uint32_t worker) = 0;
  // The last thing on a thread that ends.
  virtual void thread_ends() = 0;

 protected:
  ~Runner() = default;
};

struct Worker {
  explicit Worker(WorkerPool* owner) : pool(owner) {}
  WorkerPool* const pool;
  uint32_t number = 0;      // 1, 2, … within the pool
  Worker* next_idle = nullptr;  // guarded by the pool's lock
  SpinBudget spin;     // its own, for work
  bool fresh = false;  // the same: was without work before the operation it runs now
  bool woken_to_search = false;  // guarded as above: the pool's `searching_` stands for this thread
  std::atomic<bool> ended{false};
  std::atomic<bool> busy{false};  // running what the next two say
  std::atomic<const char*> name{nullptr};
  std::atomic<const char*> origin{nullptr};
  Waiter wake;
  std::thread thread;
};

class WorkerPool {
 public:
  WorkerPool(Runner& runner, int limit) : runner_(runner), limit_(limit) {}
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Queues the blocks.  False when the pool has no thread and none can be created, or it was abandoned: the
  // caller must then `take` what is queued.
  bool submit(ReadyList blocks) noexcept;
  Block* take() noexcept;

  // Runs what is queued, then ends the threads; later submissions create new ones.  Whether that
  // was done in time.  Blocks; not to be called on the pool's own threads.
  bool stop(std::chrono::steady_clock::time_point deadline) noexcept;
  // What the threads run now goes to `found`.
  void running(std::vector<Running>& found);
  // Whether a thread runs something now.  Never blocks; says yes while threads come and go.
  bool busy() noexcept;
  // The threads end after what they run now; the caller must `take` what is queued.
  void abandon() noexcept;
  void set_limit(int limit) noexcept;

  // Around a wait on one of the pool's threads.
  void begin_blocking(Worker* worker) noexcept;
  void end_blocking() noexcept;

  // The worker that is the calling thread, or NULL.
  static Worker* current() noexcept;

  // Around fork().  In the child the pool has no threads, whatever it had before.
  void lock_for_fork() noexcept;
  void unlock_after_fork(bool child) noexcept;

 private:
  struct Action {  // decided under the lock, carried out after it
    Worker* wake = nullptr;
    bool create = false;
  };
  Action next_action() noexcept;
  bool act(Action action) noexcept;  // false: a thread could not be created
  bool create_thread() noexcept;
  void join_ended();
  void main(Worker* worker);
  Block* pop(Worker* worker) noexcept;
  // Whether any thread may run a parallel operation now.
  bool team_is_free() const noexcept { return parallel_worker_ == nullptr || parallel_worker_away_; }
  void search(Worker* worker) noexcept;
  Worker* pop_idle() noexcept;
  void wake_all() noexcept;
  bool remove_idle(Worker* worker) noexcept;

  Runner& runner_;
  SpinLock lock_;  // guards what follows
  TaskQueue general_, parallel_;
  Worker* idle_ = nullptr;      // sleeping threads, the last to fall asleep first
  Worker* parallel_worker_ = nullptr;  // runs parallel operations, or did so last
  bool parallel_worker_away_ = false;  // it runs a general operation that is not small
  int limit_;
  int threads_ = 0;   // created or being created, minus those that ended
  int blocked_ = 0;   // threads inside begin_blocking/end_blocking
  uint64_t sequence_ = 0;
  bool searching_ = false;  // one thread looks for work or is being woken for it
  uint8_t stopping_ = 0;    // calls of `stop` that wait
  bool abandoned_ = false;
  std::atomic<size_t> queued_{0};  // written under lock_, read by the searching thread

  std::mutex threads_mutex_;  // guards workers_; taken before lock_
  std::vector<std::unique_ptr<Worker>> workers_;
  uint32_t last_number_ = 0;  // guarded by threads_mutex_
};

}  // namespace mx::engine
