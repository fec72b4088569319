// SPDX-License-Identifier: Apache-2.0
//
// Replaying gradients as data over the tape, in reverse topological order.
#include <algorithm>
#include <unordered_map>

#include "invoke.hpp"

namespace mx::nd {
namespace {

class ModeScope {
 public:
  ModeScope(bool recording, bool training) : saved_(mode()) {
    mode() = {recording, training, saved_.priority};
  }
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;
  ~ModeScope() { mode() = saved_; }

 private:
  Mode saved_;
};

class Backward {
 public:
  Backward(const BackwardRequest& request, OperatorLibrary& library)
      : request_(request), library_(library), graph_(request.heads, !request.retain_graph) {}

  std::vector<Value> run() {
    const ModeScope scope(request_.create_graph, request_.training);
    number();
    find_needed();
    seed();
    for (size_t position = graph_.size(); position-- > 0;) {
      if (needed_[position]) differentiate(position);
    }
    std::vector<Value> results;
    for (const Value& variable : request_.variables) {
      const auto found = position_.find(variable.node.get());
      results.push_back(found == position_.end() ? Value{} : own(found->second, variable.index));
    }
    graph_.keep_taken();
    return results;
  }

 private:
  struct Sum {
    Value value;
    bool owned = false;   // made here: may be added to in place
    bool shared = false;  // others hold the array too: users get a copy
  };

  void number() {
    for (size_t position = 0; position < graph_.size(); ++position) {
      position_.emplace(&graph_.node(position), position);
    }
    sums_.resize(graph_.size());
    uses_.assign(graph_.size(), 0);
    needed_.assign(graph_.size(), false);
  }

  // A node is needed when a gradient that is asked for lies below it.
  void find_needed() {
    for (const Value& variable : request_.variables) {
      if (!variable.node) throw Error(MX_ERROR, kNotRecorded);
      const auto found = position_.find(variable.node.get());
      if (found != position_.end()) needed_[found->second] = true;
    }
    for (size_t position = 0; position < graph_.size(); ++position) {
      const Node& node = graph_.node(position);
      if (request_.variables.empty() && node.kind == Node::Kind::kVariable && node.grad) {
        needed_[position] = true;
      }
      for (const Edge& edge : graph_.saved(position).inputs) {
        if (edge.node && needed_[position_.at(edge.node.get())]) needed_[position] = true;
      }
    }
    for (size_t position = 0; position < graph_.size(); ++position) {
      if (!needed_[position]) continue;
      for (const Edge& edge : graph_.saved(position).inputs) {
        if (edge.node) ++uses_[position_.at(edge.node.get())];
      }
    }
  }

  void seed() {
    for (size_t i = 0; i < request_.heads.size(); ++i) {
      const Value& head = request_.heads[i];
      const bool given = i < request_.head_grads.size() && request_.head_grads[i].array;
      Value grad = given ? request_.head_grads[i] : ones(head);
      if (given && (grad.array->bytes() != head.array->bytes() ||
                    grad.array->dtype() != head.array->dtype())) {
        throw Error(MX_ERROR_SHAPE, "[autograd] head gradient " + std::to_string(i) +
                                        ": expected shape " + head.array->shape().text() +
                                        " of the head's type, got " + grad.array->shape().text());
      }
      const bool copied = given && is_leaf_gradient(*grad.array);
      if (copied) grad = apply("_copy", {plain(grad)});
      const size_t position = position_.at(head.node.get());
      ++uses_[position];
      add(position, head.index, grad, given && !copied);
    }
  }

  static Value plain(const Value& value) { return {value.array, nullptr, 0}; }

  // Whether this backward writes the memory: others may still have to read it by then.
  bool is_leaf_gradient(const Array& memory) const {
    if (!request_.variables.empty()) return false;
    for (size_t position = 0; position < graph_.size(); ++position) {
      const Node& node = graph_.node(position);
      if (node.grad && node.grad->overlaps(memory)) return true;
    }
    return false;
  }

  // A few ones are written at once: handing an operation over would take longer.  Nobody else has the array yet.
  Value ones(const Value& head) {
    constexpr size_t kFew = 4096;  // bytes
    const Array& like = *head.array;
    const bool written = !request_.create_graph && !like.pending() && mx_on_host(like.context()) &&
                         like.bytes() <= kFew && like.dtype() == MX_FLOAT32;
    if (!written) return apply("ones_like", {plain(head)});
    Ref<Array> made = Array::create(like.context(), like.dtype(), like.shape());
    std::fill_n(static_cast<float*>(made->allocate()), made->size(), 1.0F);
    return {std::move(made), nullptr, 0};
  }

  Value sum(size_t position, uint32_t output) const {
    const std::vector<Sum>& row = sums_[position];
    return output < row.size() ? row[output].value : Value{};
  }

  // The same as an array that nobody else has.
  Value own(size_t position, uint32_t output) {
    const Value value = sum(position, output);
    const bool shared = value.array && sums_[position][output].shared;
    return shared ? apply("_copy", {value}) : value;
  }

  void add(size_t position, uint32_t output, const Value& grad, bool shared) {
    std::vector<Sum>& row = sums_[position];
    if (row.size() <= output) row.resize(output + 1);
    Sum& sum = row[output];
    if (!sum.value.array) {
      sum.value = grad;
      sum.shared = shared;
      return;
    }
    Array* into = sum.owned && !request_.create_graph ? sum.value.array.get() : nullptr;
    sum.value = apply("elemwise_add", {sum.value, grad}, into);
    sum.owned = true;
    sum.shared = false;
  }

  Value apply(const char* name, const std::vector<Value>& inputs, Array* into = nullptr,
              mx_req req = MX_REQ_WRITE) {
    Operator& op = library_.find(name);
    Invocation invocation;
    invocation.op = &op;
    invocation.params = &library_.no_params(op);
    invocation.inputs = inputs.data();
    invocation.n_inputs = static_cast<uint32_t>(inputs.size());
    const auto wanted = static_cast<uint8_t>(req);
    if (into != nullptr) {
      invocation.outputs = &into;
      invocation.req = &wanted;
      invocation.n_outputs = 1;
      invocation.outputs_inform = false;
    }
    std::vector<Value> results;
    invoke(invocation, results);
    return results.at(0);
  }

  void differentiate(size_t position) {
    Node& node = graph_.node(position);
    if (node.kind == Node::Kind::kVariable) {
      if (request_.variables.empty()) deliver(position);
      return;
    }
    bool any = false;
    for (const Sum& sum : sums_[position]) any = any || sum.value.array;
    if (!any && !is_loss(node)) return;
    if (node.kind == Node::Kind::kCustom) {
      run_custom(position);
    } else {
      run_gradient(position);
    }
    // Gradients of a middle node are not needed again, unless they were asked for.
    bool asked = false;
    for (const Value& variable : request_.variables) asked = asked || variable.node.get() == &node;
    if (!asked) sums_[position].clear();
  }

  // A loss has its gradient whatever comes back to it, also nothing.
  static bool is_loss(const Node& node) {
    return node.kind != Node::Kind::kCustom && !node.op->gradient(*node.params).reads_out_grad();
  }

  Value out_grad(size_t position, uint32_t output) {
    const Value value = sum(position, output);
    return value.array ? value : zero_grad(position, output);
  }

  Value zero_grad(size_t position, uint32_t output) {
    const OutputSpec& spec = graph_.saved(position).outputs.at(output);
    const Ref<Array> like =
        spec.array ? spec.array : Array::create(spec.context, spec.dtype, spec.shape);
    return apply("zeros_like", {{like, nullptr, 0}});
  }

  bool wanted(const Edge& edge) const {
    return edge.node && needed_[position_.at(edge.node.get())];
  }

  void run_custom(size_t position) {
    const Saved& node = graph_.saved(position);
    const bool foreign = node.body->is_foreign();
    std::vector<Value> out_grads;
    for (uint32_t i = 0; i < node.outputs.size(); ++i) {
      const Value value = foreign ? own(position, i) : sum(position, i);
      out_grads.push_back(value.array ? value : zero_grad(position, i));
    }
    std::vector<Value> targets;
    targets.reserve(node.inputs.size());
    for (const Edge& edge : node.inputs) targets.push_back(overwritten(edge));
    for (Value& target : targets) {
      if (target.array && is_read(*target.array, node, out_grads)) target = {};
    }
    const std::vector<Value> grads = node.body->backward(out_grads, targets, request_.retain_graph);
    for (size_t i = 0; i < node.inputs.size() && i < grads.size(); ++i) {
      const Edge& edge = node.inputs[i];
      if (!wanted(edge) || !grads[i].array) continue;
      if (grads[i].array.get() == targets[i].array.get()) {
        delivered_.emplace(edge.node.get(), true);
      } else {
        add(position_.at(edge.node.get()), edge.index, grads[i], foreign);
      }
    }
  }

  // Whether a function may read the memory while it computes gradients.
  static bool is_read(const Array& memory, const Saved& node, const std::vector<Value>& out_grads) {
    const auto shares = [&](const Ref<Array>& array) { return array && array->overlaps(memory); };
    return std::any_of(node.kept_inputs.begin(), node.kept_inputs.end(), shares) ||
           std::any_of(node.kept_outputs.begin(), node.kept_outputs.end(), shares) ||
           std::any_of(out_grads.begin(), out_grads.end(), [&](const Value& grad) { return shares(grad.array); });
  }

  // The gradient of a leaf that this edge alone gives, and that is not added to; otherwise nothing.
  Value overwritten(const Edge& edge) const {
    if (request_.create_graph || !request_.variables.empty() || !wanted(edge)) return {};
    const Node& leaf = *edge.node;
    const bool alone = leaf.kind == Node::Kind::kVariable && uses_[position_.at(edge.node.get())] == 1;
    return alone && leaf.req == MX_REQ_WRITE ? Value{leaf.grad, nullptr, 0} : Value{};
  }

  // Which gradient entries somebody wants; steps nobody needs are not run.
  std::vector<bool> live_steps(const Saved& node, const Gradient& gradient) const {
    std::vector<bool> live(gradient.steps.size(), false);
    for (size_t i = 0; i < gradient.grads.size() && i < node.inputs.size(); ++i) {
      const GradientEntry& entry = gradient.grads[i];
      if (entry.kind == GradientEntry::Kind::kStep && wanted(node.inputs[i])) {
        live[entry.index] = true;
      }
    }
    for (size_t step = gradient.steps.size(); step-- > 0;) {
      if (!live[step]) continue;
      for (const GradientEntry& entry : gradient.steps[step].inputs) {
        if (entry.kind == GradientEntry::Kind::kStep) live[entry.index] = true;
      }
    }
    return live;
  }

  // The leaf gradient a step's output may be written into directly, or NULL: the only contribution
  // to that leaf, and read by nobody else.
  Array* direct_target(const Saved& node, const Gradient& gradient, uint32_t step, uint32_t output,
                       mx_req* req) const {
    if (request_.create_graph || !request_.variables.empty()) return nullptr;
    Array* target = nullptr;
    for (size_t i = 0; i < gradient.grads.size() && i < node.inputs.size(); ++i) {
      const GradientEntry& entry = gradient.grads[i];
      if (entry.kind != GradientEntry::Kind::kStep || entry.index != step ||
          entry.output != output || !wanted(node.inputs[i])) {
        continue;
      }
      const Node& leaf = *node.inputs[i].node;
      if (target != nullptr || leaf.kind != Node::Kind::kVariable ||
          uses_[position_.at(&const_cast<Node&>(leaf))] != 1) {
        return nullptr;
      }
      target = leaf.grad.get();
      *req = leaf.req;
    }
    if (target == nullptr) return nullptr;
    for (const GradientStep& other : gradient.steps) {
      for (const GradientEntry& entry : other.inputs) {
        if (entry.kind == GradientEntry::Kind::kStep && entry.index == step &&
            entry.output == output) {
          return nullptr;
        }
      }
    }
    return target;
  }

  void run_gradient(size_t position) {
    const Node& application = graph_.node(position);
    const Saved& node = graph_.saved(position);
    const Gradient& gradient = application.op->gradient(*application.params);
    const std::vector<bool> live = live_steps(node, gradient);
    std::vector<std::vector<Value>> computed(gradient.steps.size());
    const auto resolve = [&](const GradientEntry& entry) -> Value {
      switch (entry.kind) {
        case GradientEntry::Kind::kOutGrad:
          return out_grad(position, entry.index);
        case GradientEntry::Kind::kInput:
          return {node.kept_inputs.at(entry.index), node.inputs.at(entry.index).node,
                  node.inputs.at(entry.index).index};
        case GradientEntry::Kind::kOutput:
          return {node.kept_outputs.at(entry.index), graph_.share(position), entry.index};
        case GradientEntry::Kind::kStep:
          return computed.at(entry.index).at(entry.output);
        default:
          return {};
      }
    };
    std::vector<bool> delivered(node.inputs.size(), false);
    std::vector<bool> passed(gradient.steps.size(), false);
    for (uint32_t step = 0; step < gradient.steps.size(); ++step) {
      if (!live[step]) continue;
      passed[step] = !run_step(node, gradient, live, step, resolve, computed[step], delivered);
    }
    for (size_t i = 0; i < gradient.grads.size() && i < node.inputs.size(); ++i) {
      const Edge& edge = node.inputs[i];
      if (!wanted(edge) || delivered[i]) continue;
      const GradientEntry& entry = gradient.grads[i];
      const Value grad = resolve(entry);
      if (!grad.array) continue;
      const bool shared = entry.kind != GradientEntry::Kind::kStep || passed[entry.index] ||
                          uses_of(gradient, entry) != 1;
      add(position_.at(edge.node.get()), edge.index, grad, shared);
    }
  }

  // How often a step's output is read or is a gradient.
  static size_t uses_of(const Gradient& gradient, const GradientEntry& entry) {
    const auto same = [&](const GradientEntry& other) {
      return other.kind == entry.kind && other.index == entry.index && other.output == entry.output;
    };
    auto uses = std::count_if(gradient.grads.begin(), gradient.grads.end(), same);
    for (const GradientStep& step : gradient.steps) {
      uses += std::count_if(step.inputs.begin(), step.inputs.end(), same);
    }
    return static_cast<size_t>(uses);
  }

  // Which outputs of a step anybody reads.  Derivatives of the step may read all of them.
  std::vector<uint8_t> wanted_outputs(const Saved& node, const Gradient& gradient,
                                      const std::vector<bool>& live, uint32_t step) const {
    std::vector<uint8_t> wanted_here;
    const auto want = [&](const GradientEntry& entry) {
      if (entry.kind != GradientEntry::Kind::kStep || entry.index != step) return;
      if (wanted_here.size() <= entry.output) wanted_here.resize(entry.output + 1, 0);
      wanted_here[entry.output] = 1;
    };
    for (size_t i = 0; i < gradient.grads.size() && i < node.inputs.size(); ++i) {
      if (wanted(node.inputs[i])) want(gradient.grads[i]);
    }
    for (size_t later = step + 1; later < gradient.steps.size(); ++later) {
      if (!live[later]) continue;
      for (const GradientEntry& entry : gradient.steps[later].inputs) want(entry);
    }
    return wanted_here;
  }

  // Nothing was broadcast: the sum over the repeated axes is the gradient itself.
  static bool unchanged(const GradientStep& step, const std::vector<Value>& inputs) {
    if (step.op->name != "_unbroadcast") return false;
    const Array& data = *inputs.at(0).array;
    const Array& like = *inputs.at(1).array;
    return !data.pending() && !like.pending() && data.shape() == like.shape();
  }

  // False when the step's result is its input.
  template <class Resolve>
  bool run_step(const Saved& node, const Gradient& gradient, const std::vector<bool>& live,
                uint32_t step, const Resolve& resolve, std::vector<Value>& results,
                std::vector<bool>& delivered) {
    const GradientStep& application = gradient.steps[step];
    std::vector<Value> inputs;
    inputs.reserve(application.inputs.size());
    for (const GradientEntry& entry : application.inputs) inputs.push_back(resolve(entry));
    // Outputs that go to a leaf at once.
    std::vector<Array*> targets;
    std::vector<uint8_t> req;
    bool direct = false;
    for (size_t i = 0; i < gradient.grads.size(); ++i) {
      const GradientEntry& entry = gradient.grads[i];
      if (entry.kind != GradientEntry::Kind::kStep || entry.index != step) continue;
      mx_req wanted_req = MX_REQ_WRITE;
      Array* target = direct_target(node, gradient, step, entry.output, &wanted_req);
      if (target == nullptr) continue;
      if (targets.size() <= entry.output) targets.resize(entry.output + 1, nullptr);
      if (req.size() <= entry.output) req.resize(entry.output + 1, MX_REQ_WRITE);
      targets[entry.output] = target;
      req[entry.output] = static_cast<uint8_t>(wanted_req);
      direct = true;
    }
    if (!direct && unchanged(application, inputs)) {
      results.assign(1, inputs[0]);
      return false;
    }
    Invocation invocation;
    std::vector<uint8_t> read;
    if (!request_.create_graph) {
      read = wanted_outputs(node, gradient, live, step);
      invocation.wanted = read.data();
      invocation.n_wanted = static_cast<uint32_t>(read.size());
    }
    invocation.op = application.op.get();
    invocation.params = application.params.get();
    invocation.inputs = inputs.data();
    invocation.n_inputs = static_cast<uint32_t>(inputs.size());
    invocation.outputs_inform = false;
    if (direct) {
      invocation.outputs = targets.data();
      invocation.req = req.data();
      invocation.n_outputs = static_cast<uint32_t>(targets.size());
    }
    invoke(invocation, results);
    for (size_t i = 0; direct && i < gradient.grads.size() && i < node.inputs.size(); ++i) {
      const GradientEntry& entry = gradient.grads[i];
      if (entry.kind != GradientEntry::Kind::kStep || entry.index != step) continue;
      if (entry.output >= targets.size() || targets[entry.output] == nullptr) continue;
      if (!wanted(node.inputs[i])) continue;
      delivered[i] = true;
      delivered_.emplace(node.inputs[i].node.get(), true);
    }
    return true;
  }

  // Writes or adds a leaf's gradient.
  void deliver(size_t position) {
    Node& leaf = graph_.node(position);
    if (!leaf.grad) return;
    leaf.fresh = true;
    if (delivered_.count(&leaf) != 0) return;
    const Value grad = sum(position, 0);
    if (grad.array) {
      apply("_copy", {plain(grad)}, leaf.grad.get(), leaf.req);
    } else if (leaf.req == MX_REQ_WRITE) {
      apply("zeros_like", {{leaf.grad, nullptr, 0}}, leaf.grad.get());
    }
  }

  const BackwardRequest& request_;
  OperatorLibrary& library_;
  Graph graph_;
  std::unordered_map<Node*, size_t> position_;
  std::vector<std::vector<Sum>> sums_;  // per node, per output
  std::vector<uint32_t> uses_;          // per node: contributions that may come
  std::vector<bool> needed_;
  std::unordered_map<Node*, bool> delivered_;
};

}  // namespace

std::vector<Value> backward(const BackwardRequest& request, OperatorLibrary& library) {
  return Backward(request, library).run();
}

}  // namespace mx::nd
