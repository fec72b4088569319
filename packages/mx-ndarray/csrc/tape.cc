// SPDX-License-Identifier: Apache-2.0
#include "tape.hpp"

#include <mutex>
#include <unordered_set>

#include "invoke.hpp"
#include "leaf_mutex.hpp"

namespace mx::nd {

Mode& mode() noexcept {
  static thread_local Mode state;
  return state;
}

Ref<Node> Node::variable(Ref<Array> grad, mx_req req) {
  Ref<Node> node = Ref<Node>::adopt(new Node);
  node->kind = Kind::kVariable;
  if (grad) grad->chunk().set_has_gradients();
  node->grad = std::move(grad);
  node->req = req;
  return node;
}

Ref<Node> Node::application(Operator& op, Params& params, Ref<const Saved> saved) {
  Ref<Node> node = Ref<Node>::adopt(new Node);
  node->op = Ref<Operator>::share(&op);
  node->params = Ref<Params>::share(&params);
  node->saved_ = std::move(saved);
  return node;
}

Ref<Node> Node::custom(Ref<const Saved> saved) {
  Ref<Node> node = Ref<Node>::adopt(new Node);
  node->kind = Kind::kCustom;
  node->saved_ = std::move(saved);
  return node;
}

// A chain of nodes is as long as the computation: its release must not recurse.
void Node::release() noexcept {
  if (!drop_reference()) return;
  static thread_local Node* released = nullptr;
  static thread_local bool releasing = false;
  next_released_ = released;
  released = this;
  if (releasing) return;
  releasing = true;
  while (released != nullptr) {
    Node* node = released;
    released = node->next_released_;
    delete node;
  }
  releasing = false;
}

namespace {

Ref<Array> keep(Array& array, Keep what) {
  if (what == Keep::kNothing) return nullptr;
  if (what == Keep::kValue && array.chunk().has_gradients() && !array.pending()) {
    Ref<Array> made = Array::create(array.context(), array.dtype(), array.shape());
    copy(array, *made, nullptr);  // as it is now: a backward may write it before it is read
    return made;
  }
  if (what == Keep::kValue || array.pending()) return Ref<Array>::share(&array);
  return Array::create(array.context(), array.dtype(), array.shape());
}

}  // namespace

void record(Operator& op, Params& params, const Value* inputs, uint32_t n_inputs,
            Array* const* outputs, uint32_t n_outputs, Value* visible, uint32_t n_visible) {
  bool needed = false;
  for (uint32_t i = 0; i < n_inputs; ++i) needed = needed || inputs[i].node;
  if (!needed) return;
  const Gradient& gradient = op.gradient(params);
  Ref<Saved> saved = Ref<Saved>::adopt(new Saved);
  saved->inputs.reserve(n_inputs);
  for (uint32_t i = 0; i < n_inputs; ++i) saved->inputs.push_back({inputs[i].node, inputs[i].index});
  saved->kept_inputs.resize(gradient.inputs.size());
  for (uint32_t i = 0; i < gradient.inputs.size() && i < n_inputs; ++i) {
    saved->kept_inputs[i] = keep(*inputs[i].array, gradient.inputs[i]);
  }
  saved->kept_outputs.resize(gradient.outputs.size());
  for (uint32_t i = 0; i < gradient.outputs.size() && i < n_outputs; ++i) {
    saved->kept_outputs[i] = keep(*outputs[i], gradient.outputs[i]);
  }
  saved->outputs.reserve(n_outputs);
  for (uint32_t i = 0; i < n_outputs; ++i) {
    const bool pending = outputs[i]->pending();
    saved->outputs.push_back({outputs[i]->context(), outputs[i]->dtype(),
                             pending ? Shape() : outputs[i]->shape(),
                             pending ? Ref<Array>::share(outputs[i]) : nullptr});
  }
  const Ref<Node> node = Node::application(op, params, Ref<const Saved>::adopt(saved.detach()));
  for (uint32_t i = 0; i < n_visible; ++i) {
    visible[i].node = node;
    visible[i].index = i;
  }
}

namespace {

const Ref<const Saved>& nothing_saved() {
  static const auto* nothing = new Ref<const Saved>(Ref<const Saved>::adopt(new Saved));
  return *nothing;
}

}  // namespace

Graph::Graph(const std::vector<Value>& heads, bool take) {
  std::lock_guard<std::mutex> lock(leaf_mutex<Graph>());
  sort(heads);
  if (!take) return;
  for (const Entry& entry : entries_) entry.node->saved_ = nullptr;  // each is shared: nothing is freed
  restore_ = true;
}

Graph::~Graph() {
  if (!restore_) return;
  std::lock_guard<std::mutex> lock(leaf_mutex<Graph>());
  for (const Entry& entry : entries_) {
    if (entry.node->kind != Node::Kind::kVariable) entry.node->saved_ = entry.saved;
  }
}

// Depth first, without recursion: graphs are as deep as computations are long.
void Graph::sort(const std::vector<Value>& heads) {
  struct Frame {
    Entry entry;
    size_t next;
  };
  const auto enter = [](Node* node, const char* refusal) -> Frame {
    if (node->kind == Node::Kind::kVariable) return {{Ref<Node>::share(node), nothing_saved()}, 0};
    if (!node->saved_) throw Error(MX_ERROR, refusal);
    return {{Ref<Node>::share(node), node->saved_}, 0};
  };
  std::vector<Frame> stack;
  std::unordered_set<Node*> seen;
  for (const Value& head : heads) {
    Node* start = head.node.get();
    if (start == nullptr) throw Error(MX_ERROR, kNotRecorded);
    if (!seen.insert(start).second) continue;
    stack.push_back(enter(start, kNotRecorded));
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next < frame.entry.saved->inputs.size()) {
        Node* below = frame.entry.saved->inputs[frame.next++].node.get();
        if (below == nullptr || !seen.insert(below).second) continue;
        stack.push_back(enter(below, kFreed));
      } else {
        entries_.push_back(std::move(frame.entry));
        stack.pop_back();
      }
    }
  }
}

}  // namespace mx::nd
