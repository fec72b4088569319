// SPDX-License-Identifier: Apache-2.0
//
// The nodes of a program in the order in which they run, with what the memory planner and the program must know.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings_flat_graph.hpp"

namespace mx::symbol {

// What a table says of every entry, by number.
std::vector<py::object> specs_by_number(const FlatGraph& graph, const py::dict& specs);

// Positions that a declaration names, sorted: `name` is an attribute of facts.
std::vector<uint32_t> positions(PyObject* facts, const char* name);

class FlatSchedule {
 public:
  static constexpr uint32_t kNoValue = UINT32_MAX;

  // `kept`: entries that count though no node here reads them.  `after`: per node the earlier ones that it must follow
  // for another reason than what it reads.
  FlatSchedule(std::shared_ptr<const FlatGraph> graph, const py::dict& specs, const py::iterable& kept,
               const py::sequence& after);

  const FlatGraph& graph() const noexcept { return *graph_; }
  // Shape and type of an entry.
  PyObject* spec(uint32_t entry) const noexcept { return specs_[entry].ptr(); }
  // The value that an entry of these nodes is, if anybody reads it or it is kept.
  uint32_t value(uint32_t entry) const noexcept { return entry < values_.size() ? values_[entry] : kNoValue; }
  // Nodes of one kind whose inputs and outputs are alike have one number.
  uint32_t signature(uint32_t node) const noexcept { return signatures_[node]; }
  size_t n_signatures() const noexcept { return firsts_.size(); }

  // Numbers by entry, names by number.
  const py::dict& values() const noexcept { return numbers_; }
  const py::dict& names() const noexcept { return names_; }
  // The nodes as the memory planner sees them.
  const py::tuple& steps() const noexcept { return steps_; }
  const std::vector<uint32_t>& signatures() const noexcept { return signatures_; }
  // The first node of each signature.
  const std::vector<uint32_t>& firsts() const noexcept { return firsts_; }
  // Entries that the nodes touch and that `external` contains, in order.
  py::list touched(const py::object& external) const;

 private:
  using PositionsByKind = std::vector<std::vector<uint32_t>>;

  void number_values(const py::iterable& kept, const PositionsByKind& unread);
  void number_signatures();
  void make_steps(const py::sequence& after, const PositionsByKind& unread);

  std::shared_ptr<const FlatGraph> graph_;
  std::vector<py::object> specs_;     // per entry
  std::vector<uint32_t> values_;      // per entry of the nodes
  std::vector<uint32_t> signatures_;  // per node
  std::vector<uint32_t> firsts_;
  py::dict numbers_, names_;
  py::tuple steps_;
};

}  // namespace mx::symbol
