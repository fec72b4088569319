// SPDX-License-Identifier: Apache-2.0
//
// A planned schedule becomes the nodes of a program.
#include "bindings_assembly.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "bindings_schedule.hpp"
#include "mx_core/pybind.hpp"
#include "program.hpp"

namespace mx::symbol {
namespace {

// Where values lie, as Python knows it.
struct Places {
  const py::dict& arrays;      // array numbers by entry
  int64_t arena;               // the number of the arena, or -1
  const py::dict& placements;  // by value, see mx_symbol/memory/plan.py
  const py::set& adds;         // entries of `arrays` to which is added
};

// A placement in numbers.
struct Placement {
  int64_t storage = -1, offset = 0, size = 0, death = -1, host = -1;

  static Placement of(const py::handle given) {
    const auto member = [&](Py_ssize_t i) {
      const int64_t value = PyLong_AsLongLong(PyTuple_GET_ITEM(given.ptr(), i));
      if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
      return value;
    };
    return {member(1), member(2), member(3), member(5), member(6)};
  }
};

// What all nodes of one kind have in common.
struct KindFacts {
  explicit KindFacts(PyObject* facts)
      : mutated(positions(facts, "mutated")), unread(positions(facts, "unread")),
        scalars(attribute(attribute(facts, "params").ptr(), "scalars").cast<std::vector<double>>()) {}
  std::vector<uint32_t> mutated, unread;
  std::vector<double> scalars;
};

class Assembly {
 public:
  Assembly(Program& program, const FlatSchedule& schedule, const py::list& calls, const Places& places,
           const py::function& item_size)
      : program_(program), schedule_(schedule), graph_(schedule.graph()), calls_(calls), places_(places),
        item_size_(item_size), arrays_(graph_.n_entries(), -1), slots_(graph_.n_entries(), kNoSlot) {
    if (calls.size() != schedule.n_signatures()) throw py::value_error("[Program] expected a call per signature");
    for (uint32_t kind = 0; kind < graph_.n_kinds(); ++kind) kinds_.emplace_back(graph_.facts_of_kind(kind));
    const auto n_values = static_cast<size_t>(schedule.values().size());
    placements_.resize(n_values);
    for (const auto& [value, place] : places.placements) {
      placements_.at(value.cast<size_t>()) = Placement::of(place);
    }
    hosts_.assign(n_values, -1);
    for (const auto& [entry, array] : places.arrays) {
      const uint32_t number = graph_.number(entry.ptr());
      if (number == kOutside) continue;
      arrays_[number] = array.cast<int64_t>();
      if (schedule.value(number) != FlatSchedule::kNoValue) hosts_[schedule.value(number)] = arrays_[number];
    }
  }

  // `time`: the node's place in the schedule.
  void add(uint32_t time, double microseconds, bool is_train, const py::str& mark) {
    const KindFacts& facts = kinds_[graph_.kind(time)];
    const py::handle object = graph_.node(time);
    Node node;
    node.name = text_of(attribute(object.ptr(), "name"));
    node.call = call_of(calls_[schedule_.signature(time)]);
    for (const uint32_t* e = graph_.inputs_begin(time); e != graph_.inputs_end(time); ++e) {
      node.inputs.push_back(slot(*e));
    }
    for (uint32_t o = graph_.first_output(time); o < graph_.first_output(time + 1); ++o) {
      node.outputs.push_back(slot(o));
      node.req.push_back(request(time, o));
    }
    node.mutated = facts.mutated;
    node.unread = facts.unread;
    node.scalars = facts.scalars;
    node.is_train = is_train;
    node.prepared = has_attribute(object.ptr(), mark);
    node.microseconds = microseconds;
    node.order = time;
    program_.add_node(std::move(node));
  }

 private:
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  // Shape and type; equal ones are one object.
  struct Type {
    int32_t dtype;
    size_t item_size;
    std::vector<int64_t> shape;
  };

  const Type& type_of(PyObject* spec) {
    const auto [place, fresh] = types_.try_emplace(spec);
    if (fresh) {
      const py::object dtype = attribute(spec, "dtype");
      place->second = {dtype.cast<int32_t>(), item_size_(dtype).cast<size_t>(),
                       attribute(spec, "shape").cast<std::vector<int64_t>>()};
    }
    return place->second;
  }

  uint32_t slot(uint32_t entry) {
    if (slots_[entry] == kNoSlot) {
      const Type& type = type_of(schedule_.spec(entry));
      Slot made;
      made.dtype = type.dtype;
      made.shape = type.shape;
      locate(entry, made);
      slots_[entry] = program_.add_slot(std::move(made), type.item_size);
    }
    return slots_[entry];
  }

  void locate(uint32_t entry, Slot& slot) const {
    int64_t array = arrays_[entry];
    if (array < 0 && schedule_.value(entry) != FlatSchedule::kNoValue) {
      const Placement& place = placements_[schedule_.value(entry)];
      if (place.size == 0) return;
      array = place.host < 0 ? places_.arena : hosts_.at(static_cast<size_t>(place.host));
      if (array < 0) throw py::value_error("[Program] a value lies in memory that there is not");
      slot.offset = place.host < 0 ? static_cast<size_t>(place.offset) : 0;
    }
    if (array >= 0) slot.array = static_cast<uint32_t>(array);
  }

  uint8_t request(uint32_t time, uint32_t output) const {
    const uint32_t value = schedule_.value(output);
    if (value == FlatSchedule::kNoValue) return MX_REQ_NULL;
    if (arrays_[output] < 0) return takes_over(time, value) ? MX_REQ_INPLACE : MX_REQ_WRITE;
    const int adds = PySet_Contains(places_.adds.ptr(), graph_.entry(output).ptr());
    if (adds < 0) throw py::error_already_set();
    return adds != 0 ? MX_REQ_ADD : MX_REQ_WRITE;
  }

  // True where a value that a node writes takes over the memory of one that it reads: only that one ends there.
  bool takes_over(uint32_t node, uint32_t value) const {
    const int64_t storage = placements_[value].storage;
    const auto ends_there = [&](uint32_t entry) {
      const uint32_t read = schedule_.value(entry);
      if (read == FlatSchedule::kNoValue) return false;
      return placements_[read].storage == storage && placements_[read].death == node;
    };
    return storage >= 0 && std::any_of(graph_.inputs_begin(node), graph_.inputs_end(node), ends_there);
  }

  Program& program_;
  const FlatSchedule& schedule_;
  const FlatGraph& graph_;
  const py::list& calls_;
  const Places& places_;
  const py::function& item_size_;
  std::vector<KindFacts> kinds_;
  std::vector<Placement> placements_;  // per value
  std::vector<int64_t> hosts_;         // per value the number of its array, or -1
  std::vector<int64_t> arrays_;        // the same per entry
  std::vector<uint32_t> slots_;        // per entry
  std::unordered_map<PyObject*, Type> types_;
};

// Adds nodes of a schedule, in the given order of their places in it, to a program.
void add_nodes(Program& program, const FlatSchedule& schedule, const std::vector<uint32_t>& order,
               const py::list& calls, const std::vector<double>& microseconds, const py::dict& arrays, int64_t arena,
               const py::dict& placements, const py::set& adds, const py::function& item_size, bool is_train,
               const py::str& mark) {
  translated([&] {
    const Places places{arrays, arena, placements, adds};
    Assembly assembly(program, schedule, calls, places, item_size);
    for (const uint32_t time : order) {
      if (time >= schedule.graph().n_nodes()) throw py::index_error("[Program] there is no such node");
      assembly.add(time, microseconds.at(time), is_train, mark);
    }
  });
}

}  // namespace

mx_call* call_of(const py::handle& capsule) {
  void* call = PyCapsule_GetPointer(capsule.ptr(), "mx.call.v1");
  if (call == nullptr) throw py::error_already_set();
  return static_cast<mx_call*>(call);
}

void bind_assembly(py::module_& module) {
  module.def("add_nodes", &add_nodes, py::arg("program"), py::arg("schedule"), py::arg("order"), py::arg("calls"),
             py::arg("microseconds"), py::arg("arrays"), py::arg("arena"), py::arg("placements"), py::arg("adds"),
             py::arg("item_size"), py::arg("is_train"), py::arg("mark"),
             "Puts the nodes of a schedule into a program: `calls` by signature, `arrays` numbers by entry.");
}

}  // namespace mx::symbol
