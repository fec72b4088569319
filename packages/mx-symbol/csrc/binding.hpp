// SPDX-License-Identifier: Apache-2.0
//
// A program with arrays: what is pushed to the engine.
#pragma once

#include "program.hpp"

namespace mx::symbol {

// What a naive engine's push found out.
struct FailureError {
  FailureRef failure;
};

// Cheap to make beside a program, so that one program may run on other arrays at every call.
// Threads: push from any thread.
class Binding : public std::enable_shared_from_this<Binding> {
 public:
  // Takes a reference to each array.  Throws Error when one is missing or too small.
  Binding(std::shared_ptr<const Program> program, const std::vector<mx_array*>& arrays);
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;
  ~Binding();

  // Pushes a part to the engine.  Never blocks, except under a naive engine, whose failure is
  // thrown as FailureError.  Throws Error.
  void push(uint32_t part, int32_t priority);

 private:
  // An array a segment touches, and where it was at the segment's last run.
  struct Memory {
    uint32_t array;
    void* address;
  };
  struct Bound {  // a segment
    std::vector<mx_variable*> reads;
    std::vector<mx_variable*> writes;
    std::vector<Memory> memory;
  };
  struct Step {  // a node, ready to run
    std::vector<mx_tensor> inputs;
    std::vector<mx_tensor> outputs;
  };
  struct Job;

  void check_arrays() const;
  void bind_segment(const Segment& segment);
  mx_tensor describe(uint32_t slot) const;
  void push_segment(uint32_t index, int32_t priority);
  void locate(uint32_t index);
  mx_failure* run_segment(const Job& job, const mx_run_context& context);
  mx_failure* named(mx_failure* failure, const Node& node) const noexcept;

  std::shared_ptr<const Program> program_;
  std::vector<mx_array*> arrays_;
  // A segment's memory and steps are written by its runs, which the engine orders: all of them
  // write the same variables.
  std::vector<Bound> segments_;
  std::vector<Step> steps_;
};

}  // namespace mx::symbol
