// SPDX-License-Identifier: Apache-2.0
//
// The autograd tape: one node per recorded application, which keeps only what
// the operator's gradient reads.
//
// Threads: nodes are shared between threads, but recording and backward are
// serialised by the caller (the bindings hold the GIL).
#pragma once

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

// The body of a node that is not an operator (autograd.Function).  Throws.
class CustomBackward {
 public:
  virtual ~CustomBackward() = default;
  // One gradient (or an empty value) per input of the node.
  virtual std::vector<Value> backward(const std::vector<Value>& out_grads) = 0;
};

// What a zero gradient of an output looks like.
struct OutputSpec {
  mx_context context;
  int32_t dtype;
  Shape shape;
  Ref<Array> array;  // instead of the shape, when that was not known at recording
};

class Node final : public Counted {
 public:
  enum class Kind : uint8_t { kVariable, kOperator, kCustom };

  // A leaf whose gradient goes to `grad`.
  static Ref<Node> variable(Ref<Array> grad, mx_req req);
  static Ref<Node> application(Operator& op, Params& params);
  static Ref<Node> custom(std::unique_ptr<CustomBackward> body);

  void retain() noexcept { add_reference(); }
  void release() noexcept;
  // Lets go of everything backward needs; the node cannot be differentiated any more.
  void clear() noexcept;

  Kind kind = Kind::kOperator;
  bool freed = false;
  bool fresh = false;        // variable: backward has filled the gradient
  mx_req req = MX_REQ_NULL;  // variable
  Ref<Array> grad;           // variable; NULL when req is null
  Ref<Operator> op;
  Ref<Params> params;
  std::unique_ptr<CustomBackward> body;
  std::vector<Edge> inputs;
  std::vector<Ref<Array>> kept_inputs;   // NULL where nothing is read
  std::vector<Ref<Array>> kept_outputs;
  std::vector<OutputSpec> outputs;

 private:
  ~Node() = default;
};

// Records one application when this thread records and an input is in a graph: sets node and index
// of the visible outputs.
void record(Operator& op, Params& params, const Value* inputs, uint32_t n_inputs,
            Array* const* outputs, uint32_t n_outputs, Value* visible, uint32_t n_visible);

inline constexpr const char* kNotRecorded =
    "[autograd] cannot differentiate: the array is not in a computational graph; compute it inside "
    "autograd.record() from arrays with attach_grad(), and pass retain_graph=True to "
    "differentiate the same graph twice";

// The nodes below `heads`, each behind everything it was computed from.  Throws Error for heads that
// are in no graph and for graphs of which a part was freed.
std::vector<Ref<Node>> in_order(const std::vector<Value>& heads);

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
