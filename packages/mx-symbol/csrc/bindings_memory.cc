// SPDX-License-Identifier: Apache-2.0
#include "bindings_memory.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "blocks.hpp"
#include "made_once.hpp"
#include "mx_core/gil.hpp"
#include "mx_core/pybind.hpp"
#include "mx_core/pybind_holder.hpp"

namespace mx::symbol {
namespace {

namespace py = pybind11;

using NumberPairs = std::vector<std::pair<uint32_t, uint32_t>>;
using BitPair = std::pair<py::bytes, py::bytes>;

// What the steps take that wait for each other, however many run side by side; microseconds.
double longest_path(const py::sequence& steps, const std::vector<double>& takes, std::optional<size_t> n_forward) {
  std::unordered_map<uint32_t, double> written;  // when each value is there
  std::vector<double> ends;
  double barrier = 0, last = 0;
  for (const py::handle item : steps) {
    const auto step = py::reinterpret_borrow<py::tuple>(item);
    if (n_forward && ends.size() == *n_forward) barrier = last;
    double begin = barrier;
    for (const py::handle value : step[0]) {
      const auto found = written.find(value.cast<uint32_t>());
      if (found != written.end()) begin = std::max(begin, found->second);
    }
    for (const py::handle earlier : step[3]) begin = std::max(begin, ends.at(earlier.cast<size_t>()));
    ends.push_back(begin + takes.at(ends.size()));
    for (const py::handle value : step[1]) written[value.cast<uint32_t>()] = ends.back();
    last = std::max(last, ends.back());
  }
  return last;
}

// The class of a value's place, see mx_symbol/memory/plan.py.
PyTypeObject* placement_type() {
  static std::atomic<const py::object*> type{nullptr};
  const auto find = [] { return py::object(py::module_::import("mx_symbol.memory.plan").attr("Placement")); };
  return reinterpret_cast<PyTypeObject*>(made_once(type, find).ptr());
}

// Steps as an integer of Python has them: eight bits a byte, the lowest first.
StepSet steps_of(const py::bytes& bits) {
  const std::string_view given = bits;
  StepSet steps((given.size() + 7) / 8, 0);
  std::memcpy(steps.data(), given.data(), given.size());
  return steps;
}

// The blocks of a schedule as Python gives it.
class Blocks {
 public:
  // `steps`: (reads, writes, pairs that may share memory, …).  `hosts`: external values whose memory others may use,
  // and from which step on.  `may_take_over`: None, or a function of (value, step).
  Blocks(const py::sequence& steps, const std::vector<uint64_t>& sizes, const py::iterable& external,
         const py::dict& hosts, const py::object& may_take_over) {
    std::vector<Value> values;
    for (const uint64_t bytes : sizes) values.push_back({bytes});
    for (const py::handle value : external) values.at(value.cast<size_t>()).external = true;
    for (const auto& [value, step] : hosts) values.at(value.cast<size_t>()).hosts_from = step.cast<int64_t>();
    std::vector<PlanStep> made;
    made.reserve(steps.size());
    for (const py::handle item : steps) {
      const auto step = py::reinterpret_borrow<py::tuple>(item);
      made.push_back({step[0].cast<std::vector<uint32_t>>(), step[1].cast<std::vector<uint32_t>>(),
                      pairs_of(py::object(step[2]))});
    }
    MayTakeOver ask;
    if (!may_take_over.is_none()) {
      ask = [&](uint32_t value, uint32_t time) { return may_take_over(value, time).cast<bool>(); };
    }
    sizes_ = sizes;
    shared_ = translated([&] { return share_blocks(made, values, ask); });
  }

  uint64_t live() const noexcept { return shared_.live; }

  // (values, birth) of those in the arena.
  py::list in_arena() const {
    py::list found;
    for (const auto& [values, block, host] : shared_.blocks) {
      if (host < 0) found.append(py::make_tuple(values, block.birth));
    }
    return found;
  }

  // The offsets of those in the arena and its size.  `flow`: None, or per block (steps before it, steps that touch it).
  std::pair<std::vector<uint64_t>, uint64_t> place(size_t greedy_blocks, uint32_t rounds,
                                                   const std::optional<std::vector<BitPair>>& flow) const {
    const PlacementLimits limits = {greedy_blocks, rounds};
    const std::vector<Block> blocks = blocks_in_arena();
    std::vector<FlowLife> lives;
    if (flow) {
      for (const auto& [before, users] : *flow) lives.push_back({steps_of(before), steps_of(users)});
    }
    const GilRelease released;
    Offsets placed = flow ? place_by_flow(blocks, lives, shared_.live, limits)
                          : symbol::place(blocks, shared_.live, limits);
    return {std::move(placed.of), placed.total};
  }

  // Where each value lies and when it is alive, from the offsets of the blocks in the arena.
  py::dict placements(const std::vector<uint64_t>& offsets) const {
    py::dict table;
    size_t next = 0;
    PyTypeObject* const type = placement_type();
    for (size_t number = 0; number < shared_.blocks.size(); ++number) {
      const SharedBlock& shared = shared_.blocks[number];
      const uint64_t offset = shared.host < 0 ? offsets.at(next++) : 0;
      for (const uint32_t value : shared.values) {
        const Lifetime& life = shared_.lifetimes[value];
        const py::int_ key(value);
        const py::int_ members[] = {key, number, offset, sizes_[value], life.birth,
                                    std::max(life.birth, life.last_read), shared.host};
        PyObject* place = type->tp_alloc(type, std::size(members));
        if (place == nullptr) throw py::error_already_set();
        for (size_t i = 0; i < std::size(members); ++i) {
          PyTuple_SET_ITEM(place, static_cast<Py_ssize_t>(i), Py_NewRef(members[i].ptr()));
        }
        table[key] = py::reinterpret_steal<py::object>(place);
      }
    }
    return table;
  }

 private:
  std::vector<Block> blocks_in_arena() const {
    std::vector<Block> found;
    for (const SharedBlock& shared : shared_.blocks) {
      if (shared.host < 0) found.push_back(shared.block);
    }
    return found;
  }

  // Steps that are alike have one object, which is read once.
  const NumberPairs* pairs_of(const py::object& given) {
    const auto [place, fresh] = known_.try_emplace(given.ptr(), nullptr);
    if (fresh) {
      held_.append(given);
      pairs_.push_back(given.cast<NumberPairs>());
      std::sort(pairs_.back().begin(), pairs_.back().end());
      place->second = &pairs_.back();
    }
    return place->second;
  }

  py::list held_;
  std::deque<NumberPairs> pairs_;
  std::unordered_map<PyObject*, const NumberPairs*> known_;
  std::vector<uint64_t> sizes_;
  SharedBlocks shared_;
};

}  // namespace

void bind_memory(py::module_& module) {
  module.attr("ALIGNMENT") = kAlignment;
  module.def("longest_path", &longest_path, py::arg("steps"), py::arg("microseconds"), py::arg("n_forward"),
             "What the steps take that wait for each other, however many run side by side.");
  py::class_<Blocks>(module, "Blocks", py::module_local(), "Values of a schedule that share memory.")
      .def("__init__",
           mx::init<std::unique_ptr<Blocks>, py::sequence, std::vector<uint64_t>, py::iterable, py::dict, py::object>(),
           py::detail::is_new_style_constructor(), py::arg("steps"), py::arg("sizes"), py::arg("external"),
           py::arg("hosts"), py::arg("may_take_over") = py::none())
      .def_property_readonly("live", &Blocks::live, "The largest sum of sizes in the arena that are alive at one step.")
      .def_property_readonly("in_arena", &Blocks::in_arena, "(values, birth) of each, by birth.")
      .def("place", &Blocks::place, py::arg("greedy_blocks"), py::arg("rounds"), py::arg("flow") = py::none(),
           "Offsets of those in the arena, and its size.")
      .def("placements", &Blocks::placements, py::arg("offsets"), "Where each value lies, by number.");
}

}  // namespace mx::symbol
