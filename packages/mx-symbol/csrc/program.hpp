// SPDX-License-Identifier: Apache-2.0
//
// A program: the nodes of a planned graph as a flat list of prepared calls.
//
// Values live in slots, windows on numbered arrays; the arena of the memory
// plan is one such array.  Nodes are grouped into segments, each of which
// becomes one engine operation.  A segment ends where kernels written in Python
// begin or end, since those need another kind of thread, and around prepared
// nodes, which run again only when an array they read was written.  A program names
// arrays by number only; a Binding (binding.hpp) gives it actual ones.
//
// A program may be cut into branches, nodes that run one after the other while other
// branches run at the same time.  A branch waits for those it names and for nothing else:
// that windows on the arena are free when it writes them is up to the plan.
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

// A segment that takes less may run on the pushing thread: handing it over would take as long.
constexpr double kInlineMicroseconds = 20;

// Memory of no one: an output that nobody reads, or nothing at all.
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
  mx_call* call = nullptr;        // Owns: a reference, once added to a program
  std::vector<uint32_t> inputs;   // slots, auxiliary states last
  std::vector<uint32_t> outputs;  // slots
  std::vector<uint8_t> req;       // mx_req per output
  std::vector<uint32_t> mutated;  // positions of inputs that are written
  std::vector<uint32_t> unread;   // positions of inputs of which only the shape matters
  std::vector<double> scalars;
  bool is_train = false;
  bool prepared = false;  // runs only when something it reads has changed
  double microseconds = 0;  // about what it takes
  // Where it stands without branches: random numbers are drawn in this order, so that branches change none.
  uint32_t order = 0;
};

// Consecutive nodes that may run at the same time as other branches.
struct Branch {
  uint32_t end = 0;             // its nodes follow those of the branch before
  uint32_t threads = 0;         // most that a kernel may use; 0: as many as it likes
  std::vector<uint32_t> after;  // earlier branches that it waits for
};

constexpr uint32_t kNoBranch = UINT32_MAX;

// Consecutive nodes that one engine operation runs.
struct Segment {
  uint32_t begin = 0;  // nodes
  uint32_t end = 0;
  uint32_t branch = kNoBranch;
  bool python = false;
  bool prepared = false;
  double microseconds = 0;
  uint64_t random_blocks = 0;
  std::vector<uint32_t> reads;   // numbers of arrays that are only read
  std::vector<uint32_t> writes;  // numbers of arrays that are written
  // Of a branch: numbers of arenas, which other branches use at the same time.
  std::vector<uint32_t> shares;
  // Numbers of all arrays it touches: writes, shares, reads.
  std::vector<uint32_t> arrays;
};

// Where a value of a segment is: an array, as its place among `Segment::arrays`, and bytes from there.
struct Window {
  uint32_t array = kNoArray;  // nowhere: nobody reads or writes the value
  size_t offset = 0;
};

struct Part {
  uint32_t begin = 0;  // segments
  uint32_t end = 0;
  // The prepared segments, which come first and run all or none.
  uint32_t prepared_end = 0;
  uint64_t random_blocks = 0;  // of all its branches together
};

// Built by one thread; immutable once sealed, and then usable from any.
class Program {
 public:
  Program(const Tables& tables, mx_context context, const std::string& name);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  // A new array number.  Branches use an arena side by side, other arrays in turns.
  uint32_t add_array(bool arena = false);
  // Throws Error when the size leaves 64 bits.
  uint32_t add_slot(Slot slot, size_t item_size);
  // Takes a reference to the call.
  void add_node(Node node);
  // Fixes the program; part k consists of the nodes below ends[k] that no earlier part has.
  // Segments of part k have at most limits[k] nodes; where there is none, or 0, as many as come.
  // Branches, if there are any, cover all nodes, and none reaches from one part into another.
  void seal(const std::vector<uint32_t>& ends, const std::vector<uint32_t>& limits = {},
            std::vector<Branch> branches = {});

  bool sealed() const noexcept { return sealed_; }
  const Tables& tables() const noexcept { return tables_; }
  mx_context context() const noexcept { return context_; }
  const char* name() const noexcept { return name_; }
  // Bytes that each array must have.
  const std::vector<size_t>& array_bytes() const noexcept { return array_bytes_; }
  const std::vector<Slot>& slots() const noexcept { return slots_; }
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  // What nodes get, without addresses: inputs and then outputs of each, one node after the other.
  const std::vector<mx_tensor>& tensors() const noexcept { return tensors_; }
  // Where those of a node begin; of the number of nodes, where all end.
  size_t first_tensor(uint32_t node) const noexcept { return first_tensor_[node]; }
  // Where those of a segment lie, in the same order.
  const std::vector<Window>& windows() const noexcept { return windows_; }
  // Arrays in which segments of a part hand values to each other: arenas, and what prepared segments write.
  const std::vector<uint32_t>& handed_over() const noexcept { return handed_over_; }
  const std::vector<Segment>& segments() const noexcept { return segments_; }
  const std::vector<Branch>& branches() const noexcept { return branches_; }
  const std::vector<bool>& arenas() const noexcept { return arenas_; }
  // Philox counters that come before a node's within its segment, or, of a branch, within its part.
  uint64_t random_before(uint32_t node) const noexcept { return random_before_[node]; }
  const Part& part(uint32_t index) const;
  const std::vector<Part>& parts() const noexcept { return parts_; }

 private:
  void check_node(const Node& node) const;
  void check_branches() const;
  void make_part(uint32_t begin, uint32_t end, uint32_t limit, uint32_t& branch);
  void make_segments(uint32_t begin, uint32_t end, uint32_t limit, uint32_t branch);
  void finish_segment(Segment segment);
  void join_prepared(Part& part);
  void order_random(Part& part, uint32_t begin, uint32_t end);
  void describe_tensors();
  void find_windows(const Segment& segment);
  void find_handed_over();

  Tables tables_;
  mx_context context_;
  const char* name_;
  bool sealed_ = false;
  std::vector<size_t> array_bytes_;
  std::vector<bool> arenas_;  // per array
  std::vector<Branch> branches_;
  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
  std::vector<mx_tensor> tensors_;
  std::vector<size_t> first_tensor_;  // per node, and one more
  std::vector<Window> windows_;         // per tensor
  std::vector<uint32_t> handed_over_;
  std::vector<uint64_t> random_before_;
  std::vector<Segment> segments_;
  std::vector<Part> parts_;
};

}  // namespace mx::symbol
