// SPDX-License-Identifier: Apache-2.0
//
// The engine behind mx_engine_api.  docs/architecture/engine.md explains the design.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "admission.h"
#include "device.h"
#include "pools.h"
#include "monitor.h"
#include "operator.h"
#include "poison.h"
#include "profile.h"
#include "variable.h"

namespace mx::engine {

struct EngineOptions {
  std::string name = "ThreadedEnginePerDevice";
  bool naive = false;       // runs everything at the push on the pushing thread
  bool per_device = true;   // pools per device, or one for all
  bool debug = false;       // finds undeclared writes and circular waits
  bool sticky = false;      // every wait raises a failure, not the first alone
  PoolLimits limits;
  void (*thread_ends)() = nullptr;  // called on each pool thread before it ends
  // Sleeps for a moment, on a thread that waits for another one's fork.  Whatever the forking
  // thread may need until then, the GIL above all, is given away meanwhile.
  void (*sleep)() noexcept = nullptr;
};

// A wait for one variable that has begun; see Engine::begin_wait.
struct VariableWait {
  Variable* variable = nullptr;
  bool granted = false;      // nothing to wait for (any more)
  bool immediate = false;    // there never was
  Poison* poison = nullptr;  // the variable's, once granted; a reference
  Entry entry;
  Block block;
  Waiter waiter;
};

class Bulk;
class LockOrder;

// Sets the error of an operation that is not accepted; returns the code.
int32_t refused(const char* name, mx_error* error, mx_status code, const char* text) noexcept;

class Engine final : private Runner, private TokenListener {
 public:
  explicit Engine(EngineOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  // Whether the one who asks is the only one left.
  bool last_user() const noexcept { return references_.load(std::memory_order_acquire) == 1; }
  // The last release drains, joins and frees the engine, except after notify_shutdown, when it is
  // left to the end of the process.  `blocks`: the caller waits for that end.
  void release(bool blocks = true) noexcept;

  // The C table; lives as long as the engine.
  mx_engine_api* table() noexcept { return &table_; }
  const std::string& name() const noexcept { return options_.name; }
  bool naive() const noexcept { return options_.naive; }

  Variable* new_variable() noexcept;
  void delete_variable(Variable* variable, mx_context context, void (*deleter)(void*),
                       void* argument);
  uint64_t version(Variable* variable) noexcept;

  int32_t push(const mx_operation& operation, mx_failure** failure, mx_error* error);
  void complete(Block* block, mx_failure* failure);
  Operator* new_operator(const mx_operation& prototype, mx_error* error) noexcept;
  int32_t push_operator(Operator* op, mx_context context, int32_t priority, mx_failure** failure,
                        mx_error* error);

  // The device's table must live as long as the engine.
  int32_t attach_device(const mx_device_api* device, mx_error* error) noexcept {
    return devices_.attach(device, error);
  }
  // Calls release(object) when the engine ends; for what must live as long as it does.
  void keep(void* object, void (*release)(void*));

  // A wait in three steps, so that it can be interrupted without losing its place: begin_wait
  // takes the place, wait_until sleeps on it (as often as needed), end_wait leaves, delivers the
  // failure, and must be called when begin_wait returned MX_OK.
  int32_t begin_wait(VariableWait& wait, Variable* variable, bool for_write,
                     mx_error* error) noexcept;
  bool wait_until(VariableWait& wait, std::chrono::steady_clock::time_point when) noexcept;
  int32_t end_wait(VariableWait& wait, mx_failure** failure);

  int32_t wait_for_variable(Variable* variable, bool for_write, int64_t timeout_ns,
                            mx_failure** failure, mx_error* error);
  int32_t wait_for_all(int64_t timeout_ns, mx_failure** failure, mx_error* error) noexcept;
  mx_failure* failure_of(Variable* variable) noexcept;
  bool ready(Variable* variable, bool for_write) noexcept;

  uint64_t pending() noexcept;
  // Whether everything pushed finished within the time.
  bool drain(int64_t timeout_ns) noexcept;
  // Whether the calling thread may be one that the end of an engine waits for.
  static bool on_own_thread() noexcept;
  // Waits for what is pending and ends the threads; whether that was done in time.
  bool stop(int64_t timeout_ns = -1) noexcept;
  // Operations that run now on threads of the engine, or on accelerators.
  std::vector<Running> running();
  void notify_shutdown() noexcept;
  // Refuses pushes from outside of operations from now on, then waits for what is pending.  Whether
  // that finished within the time.
  bool close(int64_t timeout_ns) noexcept;
  // From now on operations are skipped instead of begun, no-skip ones excepted; what they would have
  // written fails with `why`, which does not count as a failure nobody has seen.  For good.
  void cancel(const char* why) noexcept;
  int set_workers(int n) noexcept;
  int workers() const noexcept { return options_.naive ? 0 : pools_.compute_threads(); }

  // Threads of parallel regions in operations, per worker; 0: what the runtime says.
  void set_omp_threads(int n) noexcept { omp_threads_.store(n, std::memory_order_relaxed); }
  int omp_threads() const noexcept { return omp_threads_.load(std::memory_order_relaxed); }

  FailureLedger& failures() noexcept { return failures_; }
  Profile& profile() noexcept { return profile_; }

  // Once closed and quiet: the calling thread, which runs the handlers of the exit, may push again;
  // what it pushes has finished when the push returns.
  void serve_exit() noexcept { admission_.serve_exit(); }

  // Around fork(), on the forking thread: see Admission.
  bool hold_for_fork() noexcept { return admission_.hold_for_fork(); }
  bool try_close_for_fork(bool force) noexcept { return admission_.try_close_for_fork(force); }
  void open_after_fork() noexcept { admission_.open_after_fork(); }

 private:
  friend class Bulk;
  ~Engine() = default;
  void run(Block* block, uint32_t worker) override;
  void thread_ends() override {
    if (options_.thread_ends != nullptr) options_.thread_ends();
  }

  // Pushing (push.cc).
  int32_t admit(mx_error* error) noexcept;
  int32_t check_writes(const mx_operation& operation, mx_error* error) noexcept;
  int32_t check_lost(const mx_operation& operation, mx_error* error) noexcept;
  bool lost(const Variable* variable, bool for_write) const noexcept;
  Block* make_block(const mx_operation& operation);

  // Bulks (bulk_run.cc).
  void run_bulk(Block* block, uint32_t worker);
  static void pass_bulk_on();
  bool somebody_waits() const noexcept {
    return waiting_.load(std::memory_order_seq_cst) > 0;
  }
  // Between the two the engine does not end.
  void begin_hand_over() noexcept { visitors_.fetch_add(1, std::memory_order_relaxed); }
  void hand_over(Block* block) noexcept;
  void begin_waiting() noexcept;
  void end_waiting() noexcept { waiting_.fetch_sub(1, std::memory_order_seq_cst); }

  // From the places at the variables to a thread (scheduler.cc).
  void enqueue(Block* block, const LockOrder& order, mx_failure** failure);
  void dispatch(ReadyList ready);
  void execute(Block* block, uint32_t worker, ReadyList& ready);
  void run_body(Block* block, uint32_t worker, ReadyList& ready);
  void run_naively(Block* block, mx_failure** failure);

  // Completion on the host (completion.cc).
  void conclude(Block* block, FailureRef failure, ReadyList& ready) noexcept;
  void finish(Block* block, FailureRef failure, Poison* inherited, ReadyList& ready) noexcept;
  void release_entry(const Entry& entry, Poison* poison, ReadyList& ready) noexcept;
  void finish_wait(Block* block, ReadyList& ready) noexcept;
  Poison* find_poison(const Block& block) const noexcept;

  // The end of variables (variable_life.cc).
  void execute_deletion(Block* block) noexcept;
  void die(Variable* variable) noexcept;
  void end(Variable* variable) noexcept;

  // Operations of devices, in two steps (device_completion.cc).
  int32_t find_stream(const mx_context& context, const mx_operation& operation, Stream** stream,
                      mx_error* error) noexcept;
  bool begin_on_device(Block* block) noexcept;
  void find_earlier(InFlight* in_flight) noexcept;
  FailureRef order_on_device(InFlight* in_flight) noexcept;
  void on_launched(Block* block, FailureRef failure, ReadyList& ready) noexcept;
  void token_reached(InFlight* in_flight, mx_failure* failure) noexcept override;
  void on_dependency_ready(InFlight* in_flight, ReadyList& ready) noexcept;
  FailureRef wait_for_launched(Block* block) noexcept;

  // Life, forks (lifecycle.cc, fork.cc).
  void destroy() noexcept;
  void finish_before_exit() noexcept;
  void enlist();
  void delist() noexcept;
  void lock_for_fork() noexcept;
  void unlock_after_fork(bool child) noexcept;
  static void before_fork() noexcept;
  static void after_fork(bool child) noexcept;
  Poison* cancellation() const noexcept { return cancellation_.load(std::memory_order_acquire); }

  mx_engine_api table_;
  const EngineOptions options_;
  Admission admission_;
  Pools pools_;
  Devices devices_{*this};
  FailureLedger failures_{options_.sticky};
  std::atomic<Poison*> cancellation_{nullptr};  // what is skipped once the engine was told to cancel fails with it
  Profile profile_;
  const std::unique_ptr<Monitor> monitor_;  // the debugging engine's
  std::atomic<int> omp_threads_{0};
  uint32_t lost_forks_ = 0;  // forks up to this process at which the parent had something pending
  std::atomic<uint32_t> references_{1};
  std::atomic<uint32_t> visitors_{0};  // threads inside complete() or handing a bulk over
  std::atomic<uint32_t> waiting_{0};   // threads that wait for something; bulks hold nothing back
  struct Kept {
    void* object;
    void (*release)(void*);
  };
  std::mutex kept_mutex_;
  std::vector<Kept> kept_;  // guarded by kept_mutex_
};

}  // namespace mx::engine
