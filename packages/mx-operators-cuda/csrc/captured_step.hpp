// SPDX-License-Identifier: Apache-2.0
//
// A step of a program, such as one of training, as a CUDA graph: captured once from the stream that computes, then
// started as a whole.  Numbers that vary from run to run (learning rates, keys and counters of random numbers, small
// arrays that come from the host) lie in a table in memory of the device, which every run gets anew.
//
// A step has two parts.  Of the first only counters of random numbers change from run to run.  The second is pushed
// again before a run, and then tells its numbers instead of being enqueued; or its numbers stay, but for small arrays
// from the host that the caller tells.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "account.hpp"
#include "gpu.hpp"
#include "mx_core/engine.h"
#include "mx_core/invoke.h"
#include "mx_core/kernel.h"
#include "mx_core/storage.h"
#include "parameter.hpp"

namespace mx::cuda {

// What runs of the step are made by.
class Capturable {
 public:
  virtual const std::string& operation() const = 0;
  // Whether runs of both differ in numbers at most.
  virtual bool same_but_numbers(const Capturable& other) const = 0;

 protected:
  ~Capturable() = default;
};

// Threads: any, one step at a time on a GPU.  Nothing else may be pushed to the GPU while it is captured, or while its
// second part is pushed.
class CapturedStep : public std::enable_shared_from_this<CapturedStep> {
 public:
  struct Number {
    uint64_t bits;
    Parameter::Kind kind;
  };
  struct Random {
    uint64_t key, offset, blocks;
  };
  // A run of a plan.
  struct Run {
    const Capturable* maker;
    mx_plan* plan;  // of the maker
    std::vector<Number> numbers;
    std::vector<mx_tensor> tensors;  // inputs, then outputs
    size_t n_inputs;
    std::vector<uint8_t> requests;
    Random random;
  };
  struct Copy {
    Stream stream;
    void* to;
    mx_context to_context;
    const void* from;
    mx_context from_context;
    size_t bytes;
  };

  // Throws mx::Error when there is no such GPU, or no memory for the table.
  CapturedStep(int32_t gpu, Account& account);
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;
  ~CapturedStep();  // Blocks: until its last run has ended

  // Everything pushed before must be done.  What runs from here on belongs to the first part, after `begin_second` to
  // the second; `end` makes the graph, which has not run then.
  void begin(const mx_engine_api* engine);
  const mx_engine_api* engine() const noexcept { return tables_.engine; }
  void begin_second();
  void end();
  // Ends a capture without a graph.
  void abandon() noexcept;

  // What runs are started with.  Each run copies what it is given to the inputs, and is ordered with all other work on
  // `written`: results, and what else the step writes; `apart`: those of them that others use one by one.
  void bind(const mx_invoke_api* invoke, const mx_resource_api* random, const std::vector<mx_array*>& inputs,
            const std::vector<mx_array*>& written, const std::vector<mx_array*>& apart);
  // Whether arrays have the number, shapes and types of the inputs; false also where a shape is not known yet.
  bool takes(const std::vector<mx_array*>& given) const;

  // Another run: counters for its random numbers are taken, and the second part may be pushed.
  void begin_numbers();
  // How many operations of the second part have not come yet.
  size_t missing();
  // Forgets numbers that were told.
  void abandon_numbers() noexcept;
  // What the second part read from the host in the last run, one array after another in the order of its operations.
  std::string host_arrays() const;
  // Takes the place of the second part: all other numbers are those of the last run.
  void tell_host_arrays(std::string_view arrays);
  // Starts the run as an operation of the engine; waits until it is enqueued, or refused.  Without `begin_numbers` the
  // second part's numbers are those of the last run.
  void start(const std::vector<mx_array*>& given);

  // ---- for what is enqueued on the GPU ----
  // A run: captured by `enqueue`, which gets the places of its numbers on the device, or its numbers are taken.
  void record(const Run& run, const std::function<void(const uint64_t* places)>& enqueue);
  // Whether the copy is to be enqueued.
  bool record(const Copy& copy);
  // Work whose arguments nobody knows.
  void record_unknown(const char* what);
  bool captures(Stream stream);
  const std::shared_ptr<const LastRun>& last_run() const noexcept { return last_run_; }

  // Copies on other streams: those that touch memory of the runs are ordered with them.
  bool touches(const void* data, size_t bytes) const;
  Gpu& gpu() const noexcept { return gpu_; }

 private:
  class Start;
  enum class State { kNew, kFirst, kSecond, kReady, kNumbers, kFailed };
  // A tensor that lies in memory which was copied from the host.
  struct FromHost {
    size_t tensor;
    size_t first;   // number
    size_t bytes;   // of all that was copied together
    size_t offset;  // of the tensor in it
  };
  struct Entry {
    const Capturable* maker;  // null: a copy
    mx_plan* plan;            // retained
    std::vector<void*> addresses;  // null: of memory that every run finds elsewhere
    std::vector<uint8_t> requests;
    size_t begin;     // number, from which on they are of this run or a later one
    size_t first, n;  // those of the plan
    std::vector<FromHost> host;
    size_t bytes;  // of a copy
  };

  struct Tables {
    const mx_engine_api* engine;
    const mx_invoke_api* invoke;
    const mx_resource_api* random;
  };
  using Pieces = std::map<uintptr_t, std::vector<char>>;  // as they were copied from the host

  [[noreturn]] void refuse(const std::string& why) const;
  void begin_recording(bool notes);
  void end_recording();
  bool capturing() const noexcept { return state_ == State::kFirst || state_ == State::kSecond; }
  const uint64_t* place(size_t number) const;
  size_t add_number(Number number);
  void capture(const Run& run, const std::function<void(const uint64_t*)>& enqueue);
  void take_numbers(const Run& run);
  const Entry& expected(const std::string& operation);
  Entry entry_of(const std::vector<mx_tensor>& tensors, size_t n_inputs);
  void check_addresses(const Entry& entry, const std::string& operation, const std::vector<mx_tensor>& tensors) const;
  void keep_random(const Random& random);
  void take_random();
  template <class F>
  void each_host_array(F f) const;
  Pieces::iterator host_piece(const void* data);
  size_t capture_host(Pieces::iterator piece);
  void take_host(const Entry& entry, const std::string& operation, const std::vector<mx_tensor>& tensors);
  void join_used();
  void fill_table(Stream stream, const std::vector<uint64_t>& numbers);
  void launch(Stream stream);

  Gpu& gpu_;
  Account& account_;
  const std::shared_ptr<const LastRun> last_run_;
  mx_block table_{};
  GraphExec graph_ = nullptr;
  Reserve* reserve_ = nullptr;
  Tables tables_{};
  std::vector<mx_array*> arrays_;  // references: inputs, then what else is written
  size_t n_inputs_ = 0;

  mutable std::mutex mutex_;  // guards all that follows
  mx_variable* own_ = nullptr;  // so that what it is joined with is used as long as the step lives
  std::vector<mx_variable*> apart_;  // in order
  // In order: those, and that and those of other `arrays_`, or what all of these and of the graph were joined to.
  std::vector<mx_variable*> written_;
  bool joined_ = false;
  State state_ = State::kNew;
  std::vector<uint64_t> numbers_;
  std::vector<Parameter::Kind> kinds_;  // of numbers
  bool table_is_full_ = false;          // with the numbers as they are
  std::vector<Entry> entries_;
  size_t second_ = 0;  // first entry of the second part
  size_t next_ = 0;    // entry whose numbers are to come
  Random random_{};    // what the first part took for the last run
  bool is_new_ = false;  // the graph has not been started
  Pieces host_;        // an empty one was too large to be kept
  std::map<uintptr_t, size_t> touched_;
};

// Orders a copy with the runs of captured steps whose memory it touches.
class CopyOrder {
 public:
  // To be made before the copy is enqueued.
  explicit CopyOrder(const CapturedStep::Copy& copy);
  void enqueued() const;

 private:
  const Stream stream_;
  std::vector<std::shared_ptr<CapturedStep>> steps_;
};

}  // namespace mx::cuda
