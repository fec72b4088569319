// SPDX-License-Identifier: Apache-2.0
#include "bindings_fixed_point.hpp"

#include <numeric>

namespace mx::symbol {
namespace {

constexpr uint32_t kVisitsPerCheck = 1024;

bool is_equal(const py::handle a, const py::handle b) {
  const int equal = PyObject_RichCompareBool(a.ptr(), b.ptr(), Py_EQ);
  if (equal < 0) throw py::error_already_set();
  return equal != 0;
}

}  // namespace

Inference::Inference(std::shared_ptr<const FlatGraph> graph, py::function rule, py::function merge)
    : graph_(std::move(graph)), rule_(std::move(rule)), merge_(std::move(merge)),
      values_(graph_->n_entries(), py::none()), queued_(graph_->n_nodes(), false) {}

uint32_t Inference::number(const py::object& entry) const {
  const uint32_t found = graph_->number(entry.ptr());
  if (found == kOutside) throw py::key_error(py::repr(entry));
  return found;
}

void Inference::assign(const py::object& entry, const py::object& value) { add(number(entry), value); }

void Inference::run() {
  began_ = true;
  for (; swept_ < graph_->n_nodes(); ++swept_) sweep(swept_);
  for (uint32_t visits = 1; !queue_.empty(); ++visits) {
    // Rules that were asked already run no Python, which would see Ctrl-C.
    if (visits % kVisitsPerCheck == 0 && PyErr_CheckSignals() != 0) throw py::error_already_set();
    const uint32_t node = queue_.front();
    queue_.pop_front();
    try {
      visit(node);
    } catch (...) {  // it is still to be looked at
      queue_.push_front(node);
      queued_[node] = true;
      throw;
    }
  }
}

py::tuple Inference::values_of(const uint32_t* begin, const uint32_t* end) const {
  py::tuple made(end - begin);
  for (size_t i = 0; begin != end; ++begin, ++i) made[i] = values_[*begin];
  return made;
}

const Inference::Answer& Inference::asked(uint32_t node) {
  const uint32_t first = graph_->first_output(node), last = graph_->first_output(node + 1);
  signature_.assign(1, graph_->facts(node));
  for (const uint32_t* e = graph_->inputs_begin(node); e != graph_->inputs_end(node); ++e) {
    signature_.push_back(values_[*e].ptr());
  }
  for (uint32_t e = first; e < last; ++e) signature_.push_back(values_[e].ptr());
  const auto [number, fresh] = signatures_.number(signature_);
  if (fresh) answers_.emplace_back();
  Answer& made = answers_[number];
  if (made.is_known) return made;
  std::vector<uint32_t> outputs(last - first);
  std::iota(outputs.begin(), outputs.end(), first);
  made.inputs = values_of(graph_->inputs_begin(node), graph_->inputs_end(node));
  made.outputs = values_of(outputs.data(), outputs.data() + outputs.size());
  const py::tuple found = rule_(py::handle(graph_->node(node)), made.inputs, made.outputs);
  made.new_inputs = py::tuple(found[0]);
  made.new_outputs = py::tuple(found[1]);
  if (made.new_inputs.size() != made.inputs.size() || made.new_outputs.size() != made.outputs.size()) {
    throw py::value_error("[Inference] a rule gave another number of values than it was given");
  }
  // What did not change is one object, which is found out here once for all nodes of the signature.
  if (is_equal(made.inputs, made.new_inputs)) made.new_inputs = made.inputs;
  if (is_equal(made.outputs, made.new_outputs)) made.new_outputs = made.outputs;
  made.is_known = true;
  return made;
}

void Inference::sweep(uint32_t node) {
  if (graph_->facts(node) == nullptr) return;
  const Answer& answer = asked(node);
  if (!answer.new_outputs.is(answer.outputs)) {  // its users come later in the order, so nobody has to be woken
    const uint32_t first = graph_->first_output(node);
    for (size_t i = 0; i < answer.outputs.size(); ++i) {
      values_[first + i] = merged(first + static_cast<uint32_t>(i), answer.new_outputs[i]);
    }
  }
  if (!answer.new_inputs.is(answer.inputs)) take_inputs(node, answer);
}

void Inference::visit(uint32_t node) {
  const Answer& answer = asked(node);
  if (!answer.new_outputs.is(answer.outputs)) {
    const uint32_t first = graph_->first_output(node);
    for (size_t i = 0; i < answer.outputs.size(); ++i) add(first + static_cast<uint32_t>(i), answer.new_outputs[i]);
  }
  queued_[node] = false;
  if (!answer.new_inputs.is(answer.inputs)) take_inputs(node, answer);
}

// Takes over what a rule says of inputs, without waking the node for its own answer.
void Inference::take_inputs(uint32_t node, const Answer& answer) {
  const uint32_t* inputs = graph_->inputs_begin(node);
  queued_[node] = true;
  for (size_t i = 0; i < answer.inputs.size(); ++i) {
    // An entry that comes in twice may have got an answer meanwhile: what the rule did not add to is passed over.
    if (!is_equal(answer.inputs[i], answer.new_inputs[i])) add(inputs[i], answer.new_inputs[i]);
  }
  queued_[node] = false;
  // The rule is at its own fixed point, unless merging told an input more than the rule knew and said: where an entry
  // comes in twice, or where the rule left out what it was told.
  for (size_t i = 0; i < answer.inputs.size(); ++i) {
    const py::object& now = values_[inputs[i]];
    if (!is_equal(answer.inputs[i], now) && !is_equal(answer.new_inputs[i], now)) return wake(node);
  }
}

py::object Inference::merged(uint32_t number, const py::object& value) const {
  const py::object& old = values_[number];
  if (value.is_none() || is_equal(old, value)) return old;
  return old.is_none() ? value : py::object(merge_(graph_->entry(number), old, value));
}

void Inference::add(uint32_t number, const py::object& value) {
  const py::object next = merged(number, value);
  if (is_equal(next, values_[number])) return;
  values_[number] = next;
  if (!began_) return;
  if (graph_->maker(number) != kOutside) wake(graph_->maker(number));
  wake_users(number);
}

void Inference::wake(uint32_t node) {
  if (graph_->facts(node) == nullptr || queued_[node]) return;
  queued_[node] = true;
  queue_.push_back(node);
}

void Inference::wake_users(uint32_t number) {
  if (first_users_.empty()) {
    const auto n_nodes = static_cast<uint32_t>(graph_->n_nodes());
    const auto every_read = [&](const auto& use) {
      for (uint32_t node = 0; node < n_nodes; ++node) {
        for (const uint32_t* e = graph_->inputs_begin(node); e != graph_->inputs_end(node); ++e) use(*e, node);
      }
    };
    first_users_.assign(graph_->n_entries() + 1, 0);
    every_read([&](uint32_t entry, uint32_t) { ++first_users_[entry + 1]; });
    std::partial_sum(first_users_.begin(), first_users_.end(), first_users_.begin());
    users_.resize(first_users_.back());
    std::vector<uint32_t> next = first_users_;
    every_read([&](uint32_t entry, uint32_t node) { users_[next[entry]++] = node; });
  }
  for (uint32_t i = first_users_[number]; i < first_users_[number + 1]; ++i) wake(users_[i]);
}

}  // namespace mx::symbol
