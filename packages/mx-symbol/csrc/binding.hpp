// SPDX-License-Identifier: Apache-2.0
//
// A program with arrays: what is pushed to the engine.
#pragma once

#include "memo.hpp"
#include "program.hpp"
#include "push_locks.hpp"

namespace mx::symbol {

constexpr uint32_t kAllParts = UINT32_MAX;

// Cheap to make next to a program, so that one program may run on other arrays at every call.
// Threads: push from any thread.
class Binding : public std::enable_shared_from_this<Binding> {
 public:
  // Takes a reference to each array.  Throws Error when one is missing or too small.  Bindings that
  // share a memo, and the arrays that prepared nodes write, share what these computed.  With `only` it
  // is for one part.
  Binding(std::shared_ptr<const Program> program, std::vector<mx_array*> arrays, std::shared_ptr<Memo> memo = nullptr,
          uint32_t only = kAllParts);
  // The same for one part and one call.  A binding of the memo that is not pending any more is used again, which
  // allocates nothing; with the last reference it goes back there, without arrays.
  static std::shared_ptr<Binding> of_call(const std::shared_ptr<const Program>& program, mx_array* const* arrays,
                                          size_t n_arrays, const std::shared_ptr<Memo>& memo, uint32_t part);
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;
  ~Binding();

  // Pushes a part to the engine, an operation per segment.  Of a program with branches the first operation
  // takes the arenas, so that what other programs left there is over.  No other part on the same arena, or of the
  // same prepared nodes, comes between its operations.  Never blocks but for such a push of another thread, and
  // under a naive engine, whose failure is thrown as FailureError and for which a part is one operation.
  // Throws Error.
  void push(uint32_t part, int32_t priority);

 private:
  struct Bound {  // a segment, a part, or its barrier
    std::vector<mx_variable*> reads;
    std::vector<mx_variable*> writes;
    std::vector<void*> addresses;  // of a segment's arrays at its last run
  };
  struct Job;

  // Without arrays.
  Binding(std::shared_ptr<const Program> program, uint32_t only);
  void take(mx_array* const* arrays, size_t n_arrays, std::shared_ptr<Memo> memo);
  void release_arrays() noexcept;
  static void retire(Binding* binding) noexcept;
  std::unique_ptr<Job> take_job();
  void check_arrays(mx_array* const* arrays, size_t n_arrays) const;
  void append_variables(const std::vector<uint32_t>& arrays, std::vector<mx_variable*>& list) const;
  void bind_segment(uint32_t index);
  bool has(uint32_t part) const noexcept { return only_ == kAllParts || only_ == part; }
  std::vector<uint32_t> arena_numbers() const;
  void bind_barriers();
  void bind_whole();
  // Random numbers that were reserved.
  struct Random {
    uint64_t key = 0;
    uint64_t offset = 0;
  };
  Random reserve(uint64_t blocks) const;
  void push_segment(uint32_t index, int32_t priority, Random random);
  void push_barrier(uint32_t part, int32_t priority);
  void push_whole(uint32_t part, int32_t priority);
  void submit(const Bound& bound, std::unique_ptr<Job> job, uint32_t flags, int32_t priority);
  void locate(uint32_t index);
  Memo::Stamp stamp(uint32_t segment, size_t position) const;
  bool is_current(uint32_t segment) const;
  bool is_in_flight(const Memo::Stamp& read) const;
  bool has_current_stamps(uint32_t segment) const;
  void forget_prepared();
  void remember(uint32_t segment);
  mx_failure* run_nodes(uint32_t segment, Random random, const mx_run_context& context);
  mx_failure* run_segment(uint32_t segment, Random random, const mx_run_context& context);
  mx_failure* named(mx_failure* failure, const Node& node) const noexcept;

  std::shared_ptr<const Program> program_;
  std::vector<mx_array*> arrays_;
  std::shared_ptr<Memo> memo_;
  uint32_t only_;  // part, or kAllParts
  size_t first_tensor_ = 0;  // of what it has tensors for, among the program's
  std::vector<mx_variable*> done_;  // per branch, written when it has run; owned
  std::vector<Bound> barriers_;      // per part, if there are branches
  std::vector<Bound> whole_;          // per part, under a naive engine
  std::vector<mx_variable*> handed_over_;  // where segments hand values to each other
  PushLocks::Stripes stripes_;             // of these
  // A segment's addresses and tensors are written by its runs, which the engine orders: all of them
  // write the same variables.
  std::vector<Bound> segments_;
  std::vector<mx_tensor> tensors_;  // as Program::tensors, of its parts, with addresses
  size_t n_jobs_ = 0;                            // guarded by StripedMutex<Job>
  std::vector<std::unique_ptr<Job>> idle_jobs_;  // the same; as many as ever were pending at once
};

}  // namespace mx::symbol
