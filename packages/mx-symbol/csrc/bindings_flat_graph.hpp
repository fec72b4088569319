// SPDX-License-Identifier: Apache-2.0
//
// A graph of Python nodes in numbers, which native walks need: looking at Python objects again and again is what
// compiling a graph would spend its time on.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mx::symbol {

namespace py = pybind11;

constexpr uint32_t kOutside = UINT32_MAX;

// What a walk reads of Python nodes and entries.  References that are not said to be new are borrowed: the graph
// keeps them, and nobody changes it during a walk.
PyObject* inputs_of(PyObject* node);
PyObject* node_of(PyObject* entry);
size_t index_of(PyObject* entry);
py::object attribute(PyObject* object, PyObject* name);
py::object attribute(PyObject* object, const char* name);
// A name for messages: what UTF-8 does not have is escaped.
std::string text_of(const py::object& name);
// True for a node with attributes that are texts.
bool has_attributes(PyObject* node);
// True where the attributes that are texts, `attrs`, have a name.
bool has_attribute(PyObject* node, const py::str& name);
// True for a node that nothing computes.
bool is_variable(PyObject* node);
// The facts of a node with an operator, see mx_symbol/graph/facts.py.
py::object facts_of(PyObject* node);
py::object make_entry(PyObject* node, size_t index);

// Raises PluginError of mx_core.errors.
[[noreturn]] void refuse(const std::string& message);
std::string quoted_name(PyObject* named);

// An entry as node and index, to find it by.
using Place = std::pair<PyObject*, size_t>;
struct PlaceHash {
  size_t operator()(const Place& place) const noexcept {
    return std::hash<PyObject*>()(place.first) ^ place.second * 0x9e3779b97f4a7c15u;
  }
};

// Nodes in an order.  Their outputs are numbered node by node; the entries that they read of other nodes follow.
class FlatGraph {
 public:
  explicit FlatGraph(const py::list& nodes);
  // Some nodes of another graph, by number, in an order.
  FlatGraph(const FlatGraph& whole, const std::vector<uint32_t>& order);

  size_t n_nodes() const noexcept { return kinds_.size(); }
  size_t n_entries() const noexcept { return makers_.size(); }
  PyObject* node(uint32_t i) const noexcept { return PyTuple_GET_ITEM(nodes_.ptr(), i); }
  // Nodes of one operator with equal parameters are of one kind, and have one object of facts; kOutside for a variable.
  uint32_t kind(uint32_t i) const noexcept { return kinds_[i]; }
  bool is_variable(uint32_t i) const noexcept { return kinds_[i] == kOutside; }
  size_t n_kinds() const noexcept { return facts_->size(); }
  PyObject* facts_of_kind(uint32_t kind) const noexcept { return (*facts_)[kind].ptr(); }
  // Null for a variable.
  PyObject* facts(uint32_t i) const noexcept { return is_variable(i) ? nullptr : facts_of_kind(kinds_[i]); }
  // The first output of a node; that of the node after the last is the first entry from outside.
  uint32_t first_output(uint32_t i) const noexcept { return first_outputs_[i]; }
  const uint32_t* inputs_begin(uint32_t i) const noexcept { return inputs_.data() + first_inputs_[i]; }
  const uint32_t* inputs_end(uint32_t i) const noexcept { return inputs_.data() + first_inputs_[i + 1]; }
  // The node that an entry is of, or kOutside.
  uint32_t maker(uint32_t entry) const noexcept { return makers_[entry]; }
  // The number of an entry; kOutside for one of another node that no node here reads.
  uint32_t number(PyObject* entry) const;
  py::object entry(uint32_t number) const;

  const py::tuple& nodes() const noexcept { return nodes_; }
  // Those that are read of nodes which are not here, by number.
  py::list outside() const;
  // The facts of every kind.
  py::list kinds() const;
  py::list variables() const;
  // The nodes with an operator of which `ask` says so, given their facts; it is asked once per kind.
  py::list select(const py::function& ask) const;

 private:
  // Raises PluginError for an output that the node does not have.
  uint32_t number_inside(uint32_t node, PyObject* entry) const;
  uint32_t number_outside(PyObject* entry);

  py::tuple nodes_;
  std::vector<uint32_t> kinds_;                           // per node
  std::shared_ptr<const std::vector<py::object>> facts_;  // per kind
  std::vector<uint32_t> first_outputs_, first_inputs_, inputs_, makers_;
  std::unordered_map<PyObject*, uint32_t> numbers_;  // of nodes
  std::unordered_map<Place, uint32_t, PlaceHash> outside_;
  std::vector<py::object> outside_entries_;
};

// Numbers of lists of addresses: equal lists have one number.
class Signatures {
 public:
  // The number of a list, and whether it is new.
  std::pair<uint32_t, bool> number(const std::vector<const void*>& list) {
    const auto [place, fresh] = known_.try_emplace(list, static_cast<uint32_t>(known_.size()));
    return {place->second, fresh};
  }

 private:
  struct Hash {
    size_t operator()(const std::vector<const void*>& list) const noexcept {
      size_t hash = list.size();
      for (const void* item : list) hash = (hash ^ reinterpret_cast<size_t>(item)) * 0x9e3779b97f4a7c15u;
      return hash ^ hash >> 32;
    }
  };
  std::unordered_map<std::vector<const void*>, uint32_t, Hash> known_;
};

}  // namespace mx::symbol
