// SPDX-License-Identifier: Apache-2.0
#include "tape.hpp"

#include <unordered_set>

namespace mx::nd {

Mode& mode() noexcept {
  static thread_local Mode state;
  return state;
}

Ref<Node> Node::variable(Ref<Array> grad, mx_req req) {
  Ref<Node> node = Ref<Node>::adopt(new Node);
  node->kind = Kind::kVariable;
  node->grad = std::move(grad);
  node->req = req;
  return node;
}

Ref<Node> Node::application(Operator& op, Params& params) {
  Ref<Node> node = Ref<Node>::adopt(new Node);
  node->op = Ref<Operator>::share(&op);
  node->params = Ref<Params>::share(&params);
  return node;
}

Ref<Node> Node::custom(std::unique_ptr<CustomBackward> body) {
  Ref<Node> node = Ref<Node>::adopt(new Node);
  node->kind = Kind::kCustom;
  node->body = std::move(body);
  return node;
}

// A chain of nodes is as long as the computation: its release must not recurse.
void Node::release() noexcept {
  if (!drop_reference()) return;
  static thread_local std::vector<Node*>* dying = nullptr;
  if (dying != nullptr) {
    dying->push_back(this);
    return;
  }
  std::vector<Node*> pending{this};
  dying = &pending;
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    delete node;
  }
  dying = nullptr;
}

void Node::clear() noexcept {
  freed = true;
  kept_inputs.clear();
  kept_outputs.clear();
  inputs.clear();
  body.reset();
}

namespace {

Ref<Array> keep(Array& array, Keep what) {
  if (what == Keep::kNothing) return nullptr;
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
  Ref<Node> node = Node::application(op, params);
  node->inputs.reserve(n_inputs);
  for (uint32_t i = 0; i < n_inputs; ++i) node->inputs.push_back({inputs[i].node, inputs[i].index});
  node->kept_inputs.resize(gradient.inputs.size());
  for (uint32_t i = 0; i < gradient.inputs.size() && i < n_inputs; ++i) {
    node->kept_inputs[i] = keep(*inputs[i].array, gradient.inputs[i]);
  }
  node->kept_outputs.resize(gradient.outputs.size());
  for (uint32_t i = 0; i < gradient.outputs.size() && i < n_outputs; ++i) {
    node->kept_outputs[i] = keep(*outputs[i], gradient.outputs[i]);
  }
  node->outputs.reserve(n_outputs);
  for (uint32_t i = 0; i < n_outputs; ++i) {
    const bool pending = outputs[i]->pending();
    node->outputs.push_back({outputs[i]->context(), outputs[i]->dtype(),
                             pending ? Shape() : outputs[i]->shape(),
                             pending ? Ref<Array>::share(outputs[i]) : nullptr});
  }
  for (uint32_t i = 0; i < n_visible; ++i) {
    visible[i].node = node;
    visible[i].index = i;
  }
}

// Depth first, without recursion: graphs are as deep as computations are long.
std::vector<Ref<Node>> in_order(const std::vector<Value>& heads) {
  struct Frame {
    Node* node;
    size_t next;
  };
  std::vector<Ref<Node>> order;
  std::vector<Frame> stack;
  std::unordered_set<Node*> seen;
  for (const Value& head : heads) {
    Node* start = head.node.get();
    if (start == nullptr || start->freed) throw Error(MX_ERROR, kNotRecorded);
    if (!seen.insert(start).second) continue;
    stack.push_back({start, 0});
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next < frame.node->inputs.size()) {
        Node* below = frame.node->inputs[frame.next++].node.get();
        if (below == nullptr || !seen.insert(below).second) continue;
        if (below->freed) {
          throw Error(MX_ERROR,
                      "[autograd] part of this graph was freed by an earlier backward; pass "
                      "retain_graph=True there, or detach() the arrays that link the two");
        }
        stack.push_back({below, 0});
      } else {
        order.push_back(Ref<Node>::share(frame.node));
        stack.pop_back();
      }
    }
  }
  return order;
}

}  // namespace mx::nd
