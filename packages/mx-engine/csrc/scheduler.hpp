// SPDX-License-Identifier: Apache-2.0
//
// Where and when operations run.  An operation takes its places at its variables; when it has all of them
// it goes to a thread, or runs where it was pushed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "completion.hpp"
#include "device.hpp"
#include "options.hpp"
#include "pools.hpp"

namespace mx::engine {

class LockOrder;

// Threads: any.
class Scheduler final : private Runner, private TokenListener {
 public:
  Scheduler(const EngineOptions& options, Variables& variables, Completion& completion, Profile& profile,
            Monitor* monitor)
      : naive_(options.naive),
        thread_ends_(options.thread_ends),
        variables_(variables),
        completion_(completion),
        profile_(profile),
        monitor_(monitor),
        pools_(*this, options.limits, options.per_device) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The device's table must live as long as the engine.
  int32_t attach_device(const mx_device_api* device, mx_error* error) noexcept {
    return devices_.attach(device, error);
  }
  // The stream on which an operation of an accelerator's context is to run.
  int32_t find_stream(const mx_context& context, const mx_operation& operation, Stream** stream,
                      mx_error* error) noexcept;

  // Whether operations that compute on an accelerator are launched in the order in which they are pushed, and what they
  // use is noted.
  int32_t keep_order(const mx_context& context, bool on, bool notes, mx_error* error) noexcept;
  struct List {
    Variable* const* variables;
    uint32_t n;
  };
  // Joins what was noted, and is still there, with some variables, but for those in `apart`.
  // MX_TIMEOUT keeps the notes.
  int32_t join_noted(const mx_context& context, List with, List apart, Variable** joint, mx_error* error) noexcept;

  // The operation takes its places, and runs when it has all of them.  `order` has its variables; a naive
  // engine writes the operation's failure to `failure` (may be NULL).  False, with nothing done, when one of the
  // variables has become a part of another.
  bool enqueue(Block* block, const LockOrder& order, mx_failure** failure);
  // Sends what became ready where it belongs.
  void dispatch(ReadyList ready);
  // An asynchronous operation was completed; takes the failure.
  void complete(Block* block, mx_failure* failure);

  // Threads that wait for something are counted: bulks hold nothing back meanwhile.
  void begin_waiting() noexcept;
  void end_waiting() noexcept { waiting_.fetch_sub(1, std::memory_order_seq_cst); }
  bool somebody_waits() const noexcept { return waiting_.load(std::memory_order_seq_cst) > 0; }
  // Between the first and either of the others the engine does not end.
  void begin_hand_over() noexcept { visitors_.fetch_add(1, std::memory_order_relaxed); }
  void hand_over(Block* block) noexcept;
  void end_hand_over() noexcept { visitors_.fetch_sub(1, std::memory_order_release); }
  bool visited() const noexcept { return visitors_.load(std::memory_order_acquire) != 0; }

  // Whether the calling thread may be one that the end of an engine waits for.
  static bool on_own_thread() noexcept;
  // Ends the threads, which the next operation brings back.  Whether that was done in time.
  bool stop(std::chrono::steady_clock::time_point when) noexcept;
  // The threads end after what they run now; what waits for one is dropped.  After Completion::cancel.
  void abandon() noexcept;
  // Whether a thread of a pool runs native code now; never blocks.
  bool computing() noexcept { return pools_.computing(); }
  // Operations that run now on threads of the engine, or on accelerators.
  std::vector<Running> running();
  // Compute threads per device.
  int set_workers(int n) noexcept;
  int workers() const noexcept { return naive_ ? 0 : pools_.compute_threads(); }
  // Threads of parallel regions in operations, per worker; 0: what the runtime says.
  void set_omp_threads(int n) noexcept { omp_threads_.store(n, std::memory_order_relaxed); }
  int omp_threads() const noexcept { return omp_threads_.load(std::memory_order_relaxed); }

  // Held across fork().
  void lock_for_fork() noexcept;
  void unlock_after_fork(bool child) noexcept;

 private:
  void run(Block* block, uint32_t worker) override;
  void thread_ends() override {
    if (thread_ends_ != nullptr) thread_ends_();
  }
  void token_reached(InFlight* in_flight, mx_failure* failure) noexcept override;

  void execute(Block* block, uint32_t worker, ReadyList& ready);
  void run_body(Block* block, uint32_t worker, ReadyList& ready);
  // Takes what no thread of the pool will: runs it, or drops it after `abandon`.
  void take_stranded(WorkerPool& pool, ReadyList& ready);
  void drop(Block* block, ReadyList& ready) noexcept;
  void run_naively(Block* block, mx_failure** failure);
  void run_bulk(Block* block, uint32_t worker);  // bulk_run.cc
  static void pass_bulk_on();                    // the same

  const bool naive_;
  void (*const thread_ends_)();
  Variables& variables_;
  Completion& completion_;
  Profile& profile_;
  Monitor* const monitor_;
  Pools pools_;
  Devices devices_{*this};
  std::atomic<bool> abandoned_{false};
  std::atomic<int> omp_threads_{0};
  std::atomic<uint32_t> visitors_{0};  // threads inside complete() or handing a bulk over
  std::atomic<uint32_t> waiting_{0};   // threads that wait for something
};

}  // namespace mx::engine
