// SPDX-License-Identifier: Apache-2.0
//
// A program: the nodes of a bound graph as a flat list that is replayed without
// Python, without allocation and without a queue per node.
//
// Values live in slots, windows on arrays; the arena of the memory plan is one
// such array.  Nodes are grouped into segments, each one engine operation that
// owns the variables of all its arrays; inside, nodes run in schedule order.  A
// segment ends where kernels written in Python begin or end, since those need
// another kind of thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mx_core/engine.h"
#include "mx_core/failure.hpp"
#include "mx_core/invoke.h"
#include "mx_core/storage.h"

namespace mx::symbol {

// The tables a program works with; they live as long as the process.
struct Tables {
  const mx_engine_api* engine = nullptr;
  const mx_invoke_api* invoke = nullptr;
  const mx_resource_api* random = nullptr;  // NULL: no node may be random
};

// What a naive engine's push found out.
struct FailureError {
  FailureRef failure;
};

// Memory of no one: an output that nobody reads.
constexpr uint32_t kNoArray = UINT32_MAX;

// A value: a typed window on an array.
struct Slot {
  uint32_t array = kNoArray;
  size_t offset = 0;  // bytes
  size_t bytes = 0;
  int32_t dtype = MX_FLOAT32;
  std::vector<int64_t> shape;
};

// One application of an operator.
struct Node {
  std::string name;
  mx_call* call = nullptr;  // Owns: a reference, once added to a program
  std::vector<uint32_t> inputs;   // slots, auxiliary states last
  std::vector<uint32_t> outputs;  // slots
  std::vector<uint8_t> req;       // mx_req per output
  std::vector<uint32_t> mutated;  // positions of inputs that are written
  std::vector<uint32_t> unread;   // positions of inputs of which only the shape matters
  std::vector<double> scalars;
  bool is_train = false;
};

// Built by one thread, sealed, then run from any thread.
class Program : public std::enable_shared_from_this<Program> {
 public:
  Program(const Tables& tables, mx_context context, const std::string& name);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  // Takes a reference.
  uint32_t add_array(mx_array* array);
  // Throws when the window leaves the array or an element type is unknown.
  uint32_t add_slot(Slot slot, size_t item_size);
  // Takes a reference to the call.
  void add_node(Node node);
  // Fixes the program; part k consists of the nodes below ends[k] that no earlier part has.
  void seal(const std::vector<uint32_t>& ends);

  // Pushes a part to the engine.  Never blocks, except under a naive engine, whose failure is
  // thrown as FailureError.  Throws Error.
  void push(uint32_t part, int32_t priority);

  uint32_t parts() const noexcept { return static_cast<uint32_t>(parts_.size()); }
  // Engine operations of a part.
  uint32_t segments(uint32_t part) const;

 private:
  struct Segment {
    struct Memory {
      uint32_t array;
      void* address;  // at the last run
    };
    uint32_t begin = 0;
    uint32_t end = 0;
    bool python = false;
    uint64_t random_blocks = 0;
    std::vector<mx_variable*> reads;
    std::vector<mx_variable*> writes;
    std::vector<Memory> memory;
  };
  struct Step {  // a node, ready to run
    std::vector<mx_tensor> inputs;
    std::vector<mx_tensor> outputs;
    uint64_t random_offset = 0;
  };
  struct Part {
    uint32_t begin = 0;  // segments
    uint32_t end = 0;
  };
  struct Job;

  void make_step(const Node& node);
  mx_tensor describe(uint32_t slot) const;
  void make_segments(uint32_t begin, uint32_t end);
  void finish_segment(Segment segment);
  void push_segment(uint32_t index, int32_t priority);
  mx_failure* run_segment(const Job& job, const mx_run_context& context);
  void locate(Segment& segment);
  mx_failure* named(mx_failure* failure, const Node& node) const noexcept;

  Tables tables_;
  mx_context context_;
  const char* name_;
  bool sealed_ = false;
  std::vector<mx_array*> arrays_;
  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
  std::vector<Segment> segments_;
  std::vector<Part> parts_;
  // A segment's memory and steps are written by its runs, which the engine orders: all of them
  // write the same variables.
  std::vector<Step> steps_;
};

}  // namespace mx::symbol
