// SPDX-License-Identifier: Apache-2.0
//
// The autograd tape: one node per recorded application, which keeps only what
// the operator's gradient reads.
//
// Threads: any.  What a node keeps is immutable and shared; backward takes it out of all nodes of its
// graph at once before it applies the first operator, so that another backward meanwhile finds a whole
// graph or none.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "operator.hpp"

namespace mx::nd {

class Node;

// Per-thread state of `autograd.record`, `train_mode` and `priority`.
struct Mode {
  bool recording = false;
  bool training = false;
  int32_t priority = 0;  // of the operations this thread pushes
};
Mode& mode() noexcept;

// An array as it takes part in a computation: with the node that produced it.
struct Value {
  Ref<Array> array;
  Ref<Node> node;  // NULL when it is not in a graph
  uint32_t index = 0;
};

struct Edge {
  Ref<Node> node;
  uint32_t index = 0;
};

// The body of a node that is not an operator (autograd.Function, a cached operator).  Throws.
class CustomBackward {
 public:
  virtual ~CustomBackward() = default;
  // One gradient (or an empty value) per input of the node.  `targets`: per input the array that its gradient may be
  // written to at once, a leaf's that gets no other; or empty.  Who does so returns that array.  `retained`: the graph
  // is kept, so this may be called again.
  virtual std::vector<Value> backward(const std::vector<Value>& out_grads, const std::vector<Value>& targets,
                                      bool retained) = 0;
  // Whether it may write what it is given, and gives arrays that others hold.
  virtual bool is_foreign() const noexcept { return true; }
};

// What a zero gradient of an output looks like.
struct OutputSpec {
  mx_context context;
  int32_t dtype;
  Shape shape;
  Ref<Array> array;  // instead of the shape, when that was not known at recording
};

// What backward reads of a node.  Immutable.
struct Saved final : Counted {
  void retain() const noexcept { add_reference(); }
  void release() const noexcept {
    if (drop_reference()) delete this;
  }
  std::vector<Edge> inputs;
  std::vector<Ref<Array>> kept_inputs;   // NULL where nothing is read
  std::vector<Ref<Array>> kept_outputs;
  std::vector<OutputSpec> outputs;
  std::unique_ptr<CustomBackward> body;  // of a custom node
};

class Node final : public Counted {
 public:
  enum class Kind : uint8_t { kVariable, kOperator, kCustom };

  // A leaf whose gradient goes to `grad`.
  static Ref<Node> variable(Ref<Array> grad, mx_req req);
  static Ref<Node> application(Operator& op, Params& params, Ref<const Saved> saved);
  static Ref<Node> custom(Ref<const Saved> saved);

  void retain() noexcept { add_reference(); }
  void release() noexcept;

  Kind kind = Kind::kOperator;
  std::atomic<bool> fresh{false};  // variable: backward has filled the gradient
  mx_req req = MX_REQ_NULL;        // variable
  Ref<Array> grad;                 // variable; NULL when req is null
  Ref<Operator> op;
  Ref<Params> params;

 private:
  friend class Graph;
  ~Node() = default;
  Ref<const Saved> saved_;        // NULL: a variable, or taken by a backward; guarded by Graph's mutex
  Node* next_released_ = nullptr;  // while many are released
};

// Records one application when this thread records and an input is in a graph: sets node and index
// of the visible outputs.
void record(Operator& op, Params& params, const Value* inputs, uint32_t n_inputs,
            Array* const* outputs, uint32_t n_outputs, Value* visible, uint32_t n_visible);

inline constexpr const char* kNotRecorded =
    "[autograd] cannot differentiate: the array is not in a computational graph; compute it inside "
    "autograd.record() from arrays with attach_grad(), and pass retain_graph=True to "
    "differentiate the same graph twice";
inline constexpr const char* kFreed =
    "[autograd] part of this graph was freed by an earlier backward; pass retain_graph=True there, or "
    "detach() the arrays that link the two";

// The nodes below some heads, each after everything it was computed from, with what they keep.
class Graph {
 public:
  struct Entry {
    Ref<Node> node;
    Ref<const Saved> saved;
  };
  // With `take` the nodes keep nothing any more.  Throws Error for heads that are in no graph and for
  // graphs of which a part was taken; then nothing has changed.
  Graph(const std::vector<Value>& heads, bool take);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  size_t size() const noexcept { return entries_.size(); }
  Node& node(size_t i) const noexcept { return *entries_[i].node; }
  const Ref<Node>& share(size_t i) const noexcept { return entries_[i].node; }
  const Saved& saved(size_t i) const noexcept { return *entries_[i].saved; }
  // What was taken stays so; otherwise the nodes get it back in the end.
  void keep_taken() noexcept { restore_ = false; }

 private:
  void sort(const std::vector<Value>& heads);
  std::vector<Entry> entries_;
  bool restore_ = false;
};

struct BackwardRequest {
  std::vector<Value> heads;
  std::vector<Value> head_grads;  // empty values: ones
  std::vector<Value> variables;   // empty: all leaves, into their gradients
  bool retain_graph = false;
  bool create_graph = false;
  bool training = true;
};

// Runs backward.  Returns the gradients of `variables` (empty values where there is none), or
// nothing when gradients went to the leaves.  Throws Error for heads that are in no graph.
std::vector<Value> backward(const BackwardRequest& request, OperatorLibrary& library);

}  // namespace mx::nd
