// SPDX-License-Identifier: Apache-2.0
#include "bindings_schedule.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <map>

#include "bindings_graph.hpp"
#include "made_once.hpp"
#include "mx_core/pybind_holder.hpp"

namespace mx::symbol {
namespace {

// What a step reads or writes in numbers, and where each comes from among the node's inputs or outputs.
struct Side {
  std::vector<uint32_t> values, positions;

  py::tuple numbers() const {
    py::tuple made(values.size());
    for (size_t i = 0; i < values.size(); ++i) made[i] = py::int_(values[i]);
    return made;
  }
  // The place of the node's `position`-th among the values, or -1.
  int64_t place_of(uint32_t position) const {
    const auto found = std::lower_bound(positions.begin(), positions.end(), position);
    return found == positions.end() || *found != position ? -1 : found - positions.begin();
  }
};

// What may share memory in nodes that are alike; one object for all of them.
class Pairs {
 public:
  py::tuple of(PyObject* facts, uint32_t kind, const Side& reads, const Side& writes) {
    key_.assign(1, kind);
    key_.insert(key_.end(), reads.positions.begin(), reads.positions.end());
    key_.push_back(UINT32_MAX);
    key_.insert(key_.end(), writes.positions.begin(), writes.positions.end());
    const auto [place, fresh] = known_.try_emplace(key_);
    if (fresh) place->second = made(facts, reads, writes);
    return place->second;
  }

 private:
  static py::tuple made(PyObject* facts, const Side& reads, const Side& writes) {
    py::list pairs;
    for (const py::handle pair : attribute(facts, "inplace")) {
      const auto [input, output] = pair.cast<std::pair<uint32_t, uint32_t>>();
      const int64_t read = reads.place_of(input), write = writes.place_of(output);
      if (read >= 0 && write >= 0) pairs.append(py::make_tuple(read, write));
    }
    return py::tuple(pairs);
  }

  std::vector<uint32_t> key_;
  std::map<std::vector<uint32_t>, py::tuple> known_;
};

// The class of a step, see mx_symbol/memory/plan.py.
PyTypeObject* step_type() {
  static std::atomic<const py::object*> type{nullptr};
  return reinterpret_cast<PyTypeObject*>(
      made_once(type, [] { return py::object(py::module_::import("mx_symbol.memory.plan").attr("Step")); }).ptr());
}

}  // namespace

std::vector<py::object> specs_by_number(const FlatGraph& graph, const py::dict& specs) {
  std::vector<py::object> result;
  result.reserve(graph.n_entries());
  for (uint32_t i = 0; i < graph.n_entries(); ++i) {
    const py::object entry = graph.entry(i);
    PyObject* found = PyDict_GetItemWithError(specs.ptr(), entry.ptr());
    if (found == nullptr && PyErr_Occurred() == nullptr) PyErr_SetObject(PyExc_KeyError, entry.ptr());
    if (found == nullptr) throw py::error_already_set();
    result.push_back(py::reinterpret_borrow<py::object>(found));
  }
  return result;
}

std::vector<uint32_t> positions(PyObject* facts, const char* name) {
  std::vector<uint32_t> found;
  for (const py::handle position : attribute(facts, name)) found.push_back(position.cast<uint32_t>());
  std::sort(found.begin(), found.end());
  return found;
}

FlatSchedule::FlatSchedule(std::shared_ptr<const FlatGraph> graph, const py::dict& specs, const py::iterable& kept,
                           const py::sequence& after)
    : graph_(std::move(graph)), specs_(specs_by_number(*graph_, specs)),
      values_(graph_->first_output(static_cast<uint32_t>(graph_->n_nodes())), kNoValue) {
  if (after.size() != graph_->n_nodes()) throw py::value_error("[FlatSchedule] expected an item of after per node");
  PositionsByKind unread;
  for (uint32_t kind = 0; kind < graph_->n_kinds(); ++kind) {
    unread.push_back(positions(graph_->facts_of_kind(kind), "unread"));
  }
  number_values(kept, unread);
  number_signatures();
  make_steps(after, unread);
}

void FlatSchedule::number_values(const py::iterable& kept, const PositionsByKind& unread) {
  const auto n = static_cast<uint32_t>(graph_->n_nodes());
  std::vector<bool> counts(graph_->n_entries(), false);
  for (uint32_t i = 0; i < n; ++i) {
    if (graph_->is_variable(i)) throw py::value_error("[FlatSchedule] expected nodes with an operator");
    const std::vector<uint32_t>& skipped = unread[graph_->kind(i)];
    const uint32_t* const inputs = graph_->inputs_begin(i);
    for (uint32_t k = 0; k < graph_->inputs_end(i) - inputs; ++k) {
      if (!std::binary_search(skipped.begin(), skipped.end(), k)) counts[inputs[k]] = true;
    }
  }
  for (const py::handle entry : kept) {
    const uint32_t number = graph_->number(entry.ptr());
    if (number != kOutside) counts[number] = true;
  }
  std::vector<py::tuple> outputs;  // names by kind
  for (uint32_t kind = 0; kind < graph_->n_kinds(); ++kind) {
    outputs.push_back(attribute(graph_->facts_of_kind(kind), "outputs"));
  }
  uint32_t next = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const py::str name(attribute(graph_->node(i), "name"));
    for (uint32_t o = graph_->first_output(i); o < graph_->first_output(i + 1); ++o) {
      if (!counts[o]) continue;
      const py::int_ number(next);
      const py::str output(py::handle(PyTuple_GET_ITEM(outputs[graph_->kind(i)].ptr(), o - graph_->first_output(i))));
      PyObject* text = PyUnicode_FromFormat("%U_%U", name.ptr(), output.ptr());
      if (text == nullptr) throw py::error_already_set();
      names_[number] = py::reinterpret_steal<py::str>(text);
      numbers_[graph_->entry(o)] = number;
      values_[o] = next++;
    }
  }
}

void FlatSchedule::number_signatures() {
  Signatures known;
  std::vector<const void*> signature;
  for (uint32_t i = 0; i < graph_->n_nodes(); ++i) {
    signature.assign(1, graph_->facts(i));
    for (const uint32_t* e = graph_->inputs_begin(i); e != graph_->inputs_end(i); ++e) signature.push_back(spec(*e));
    for (uint32_t o = graph_->first_output(i); o < graph_->first_output(i + 1); ++o) signature.push_back(spec(o));
    const auto [number, fresh] = known.number(signature);
    if (fresh) firsts_.push_back(i);
    signatures_.push_back(number);
  }
}

void FlatSchedule::make_steps(const py::sequence& after, const PositionsByKind& unread) {
  Pairs pairs;
  PyTypeObject* const type = step_type();
  steps_ = py::tuple(graph_->n_nodes());
  for (uint32_t i = 0; i < graph_->n_nodes(); ++i) {
    const std::vector<uint32_t>& skipped = unread[graph_->kind(i)];
    Side reads, writes;
    const uint32_t* const inputs = graph_->inputs_begin(i);
    for (uint32_t k = 0; k < graph_->inputs_end(i) - inputs; ++k) {
      if (value(inputs[k]) == kNoValue || std::binary_search(skipped.begin(), skipped.end(), k)) continue;
      reads.values.push_back(value(inputs[k]));
      reads.positions.push_back(k);
    }
    for (uint32_t o = graph_->first_output(i); o < graph_->first_output(i + 1); ++o) {
      if (value(o) == kNoValue) continue;
      writes.values.push_back(value(o));
      writes.positions.push_back(o - graph_->first_output(i));
    }
    const py::tuple members[] = {reads.numbers(), writes.numbers(),
                                 pairs.of(graph_->facts(i), graph_->kind(i), reads, writes), py::tuple(after[i])};
    PyObject* step = type->tp_alloc(type, 4);
    if (step == nullptr) throw py::error_already_set();
    for (Py_ssize_t k = 0; k < 4; ++k) PyTuple_SET_ITEM(step, k, Py_NewRef(members[k].ptr()));
    steps_[i] = py::reinterpret_steal<py::object>(step);
  }
}

py::list FlatSchedule::touched(const py::object& external) const {
  std::vector<bool> seen(graph_->n_entries(), false);
  py::list found;
  const auto look_at = [&](uint32_t number) {
    if (seen[number]) return;
    seen[number] = true;
    const py::object entry = graph_->entry(number);
    const int there = PySequence_Contains(external.ptr(), entry.ptr());
    if (there < 0) throw py::error_already_set();
    if (there != 0) found.append(entry);
  };
  for (uint32_t i = 0; i < graph_->n_nodes(); ++i) {
    for (const uint32_t* e = graph_->inputs_begin(i); e != graph_->inputs_end(i); ++e) look_at(*e);
    for (uint32_t o = graph_->first_output(i); o < graph_->first_output(i + 1); ++o) look_at(o);
  }
  return found;
}

void bind_schedule(py::module_& module) {
  py::class_<FlatSchedule, std::shared_ptr<FlatSchedule>>(module, "FlatSchedule", py::module_local(),
                                                          "Nodes in the order in which they run, in numbers.")
      .def("__init__",
           mx::init<std::shared_ptr<FlatSchedule>, std::shared_ptr<FlatGraph>, py::dict, py::iterable, py::sequence>(),
           py::detail::is_new_style_constructor(), py::arg("graph"), py::arg("specs"), py::arg("kept"),
           py::arg("after"))
      .def_property_readonly("values", &FlatSchedule::values, "Numbers by entry: of what is read or kept.")
      .def_property_readonly("names", &FlatSchedule::names, "What values are called, by number.")
      .def_property_readonly("steps", &FlatSchedule::steps, "The nodes as the memory planner sees them.")
      .def_property_readonly("signatures", &FlatSchedule::signatures, "Per node a number; alike ones have one.")
      .def_property_readonly("firsts", &FlatSchedule::firsts, "The first node of each signature.")
      .def("touched", &FlatSchedule::touched, py::arg("external"),
           "Entries that the nodes read or write and that a collection has, in order.");
}

}  // namespace mx::symbol
