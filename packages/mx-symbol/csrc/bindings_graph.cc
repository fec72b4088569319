// SPDX-License-Identifier: Apache-2.0
//
// Walks over graphs of Python nodes, which bind takes many of.
#include "bindings_graph.hpp"

#include "fusion.hpp"
#include "mx_core/gil.hpp"

#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace mx::symbol {
namespace {

// The attribute of a node, a new reference.
py::object attribute(PyObject* node, PyObject* name) {
  PyObject* found = PyObject_GetAttr(node, name);
  if (found == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(found);
}

// The names of attributes; leaked, since a module lives as long as the process.
struct Names {
  PyObject* inputs = PyUnicode_InternFromString("inputs");
  PyObject* op = PyUnicode_InternFromString("op");
  static const Names& get() {
    static const Names* names = new Names;
    return *names;
  }
};

// The inputs of a node.  The graph keeps the list alive: nobody changes it during a walk.
PyObject* inputs_of(PyObject* node) {
  const py::object found = attribute(node, Names::get().inputs);
  if (!PyList_Check(found.ptr())) throw py::type_error("[Node] inputs: expected a list of entries");
  return found.ptr();
}

// The node of an entry, borrowed.
PyObject* node_of(PyObject* entry) {
  if (!PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) != 2) {
    throw py::type_error("[Node] inputs: expected entries (node, index)");
  }
  return PyTuple_GET_ITEM(entry, 0);
}

py::list topological_order(const py::iterable& heads) {
  struct Open {
    PyObject* node;
    PyObject* inputs;
    Py_ssize_t position;
  };
  py::list order;
  std::unordered_set<PyObject*> seen;
  std::vector<Open> stack;
  std::vector<py::object> held;  // heads, which an iterator may be all that holds
  for (const py::handle head : heads) {
    held.push_back(py::reinterpret_borrow<py::object>(head));
    if (!seen.insert(head.ptr()).second) continue;
    stack.push_back({head.ptr(), inputs_of(head.ptr()), 0});
    while (!stack.empty()) {
      Open& open = stack.back();
      PyObject* below = nullptr;
      while (open.position < PyList_GET_SIZE(open.inputs)) {
        PyObject* candidate = node_of(PyList_GET_ITEM(open.inputs, open.position++));
        if (seen.insert(candidate).second) {
          below = candidate;
          break;
        }
      }
      if (below != nullptr) {
        stack.push_back({below, inputs_of(below), 0});
        continue;
      }
      if (PyList_Append(order.ptr(), open.node) != 0) throw py::error_already_set();
      stack.pop_back();
    }
  }
  return order;
}

// Nodes of a graph in the order in which they run: of those whose inputs are there, the one with the least key
// (part, late, time, number).  `order` has all nodes, inputs before users; `parts` and `late` say the first two of
// each, `times` the third.  Variables count as nodes but are not in the result.
py::list scheduled(const py::list& order, const std::vector<uint8_t>& parts,
                   const std::vector<uint8_t>& late, const std::vector<int64_t>& times) {
  const size_t n = order.size();
  if (parts.size() != n || late.size() != n || times.size() != n) {
    throw py::value_error("[scheduled] expected a part, a mark and a time per node");
  }
  std::unordered_map<PyObject*, uint32_t> numbers;
  numbers.reserve(n);
  for (size_t i = 0; i < n; ++i) numbers.emplace(PyList_GET_ITEM(order.ptr(), i), static_cast<uint32_t>(i));
  std::vector<std::vector<uint32_t>> users(n);
  std::vector<uint32_t> waiting(n, 0);
  for (uint32_t i = 0; i < n; ++i) {
    PyObject* inputs = inputs_of(PyList_GET_ITEM(order.ptr(), i));
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(inputs); ++k) {
      const auto below = numbers.find(node_of(PyList_GET_ITEM(inputs, k)));
      if (below == numbers.end()) throw py::value_error("[scheduled] a node reads one that is not in the order");
      std::vector<uint32_t>& readers = users[below->second];
      if (!readers.empty() && readers.back() == i) continue;  // one node that is read twice
      readers.push_back(i);
      ++waiting[i];
    }
  }
  using Key = std::tuple<uint8_t, uint8_t, int64_t, uint32_t>;
  std::priority_queue<Key, std::vector<Key>, std::greater<Key>> ready;
  const auto push = [&](uint32_t i) { ready.emplace(parts[i], late[i], times[i], i); };
  for (uint32_t i = 0; i < n; ++i) {
    if (waiting[i] == 0) push(i);
  }
  py::list result;
  while (!ready.empty()) {
    const uint32_t i = std::get<3>(ready.top());
    ready.pop();
    PyObject* node = PyList_GET_ITEM(order.ptr(), i);
    if (!attribute(node, Names::get().op).is_none()) {
      if (PyList_Append(result.ptr(), node) != 0) throw py::error_already_set();
    }
    for (const uint32_t user : users[i]) {
      if (--waiting[user] == 0) push(user);
    }
  }
  return result;
}

// The schedule in numbers.  Entries that no node of it computes are variables.
FusionGraph described(const py::list& nodes, const std::vector<uint32_t>& n_outputs,
                      const std::vector<int32_t>& kinds, const std::vector<uint32_t>& values,
                      const py::list& heads) {
  const size_t n = nodes.size();
  if (n_outputs.size() != n || kinds.size() != n || values.size() != n) {
    throw py::value_error("[fusion_groups] expected outputs, a kind and values per node");
  }
  FusionGraph graph;
  graph.nodes.resize(n);
  std::unordered_map<PyObject*, uint32_t> numbers;     // of nodes
  std::unordered_map<PyObject*, uint32_t> variables;  // to entries
  numbers.reserve(n);
  for (uint32_t i = 0; i < n; ++i) {
    numbers.emplace(PyList_GET_ITEM(nodes.ptr(), i), i);
    FusionNode& node = graph.nodes[i];
    node.kind = kinds[i];
    node.values = values[i];
    for (uint32_t k = 0; k < n_outputs[i]; ++k) {
      node.outputs.push_back(static_cast<uint32_t>(graph.makers.size()));
      graph.makers.push_back(i);
    }
  }
  const auto entry_of = [&](PyObject* entry) {
    PyObject* node = node_of(entry);
    const auto known = numbers.find(node);
    if (known == numbers.end()) {
      const auto [place, fresh] = variables.emplace(node, static_cast<uint32_t>(graph.makers.size()));
      if (fresh) graph.makers.push_back(kVariable);
      return place->second;
    }
    const size_t index = PyLong_AsSize_t(PyTuple_GET_ITEM(entry, 1));
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    return graph.nodes[known->second].outputs.at(index);
  };
  for (uint32_t i = 0; i < n; ++i) {
    PyObject* inputs = inputs_of(PyList_GET_ITEM(nodes.ptr(), i));
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(inputs); ++k) {
      graph.nodes[i].inputs.push_back(entry_of(PyList_GET_ITEM(inputs, k)));
    }
  }
  std::vector<uint32_t> ends;
  for (const py::handle head : heads) ends.push_back(entry_of(head.ptr()));
  graph.heads.resize(graph.makers.size());
  for (const uint32_t end : ends) graph.heads[end] = true;
  return graph;
}

// The nodes of each group, what it reads and what is read of it as (member, index), and its wiring.
py::list find_fusion_groups(const py::list& nodes, const std::vector<uint32_t>& n_outputs,
                            const std::vector<int32_t>& kinds, const std::vector<uint32_t>& values,
                            const py::list& heads, const std::tuple<size_t, size_t, size_t>& kernel,
                            uint32_t span, size_t searched) {
  const FusionGraph graph = described(nodes, n_outputs, kinds, values, heads);
  const FusionLimits limits{std::get<0>(kernel), std::get<1>(kernel), std::get<2>(kernel), span, searched};
  std::vector<FusionGroup> groups;
  {
    const GilRelease released;
    groups = fusion_groups(graph, limits);
  }
  const auto places = [](const std::vector<FusionGroup::Place>& list) {
    py::list result;
    for (const FusionGroup::Place& place : list) result.append(py::make_tuple(place.member, place.index));
    return result;
  };
  py::list result;
  for (const FusionGroup& group : groups) {
    py::list members;
    for (const uint32_t member : group.members) members.append(nodes[member]);
    py::tuple wiring(group.wiring.size());
    for (size_t i = 0; i < group.wiring.size(); ++i) wiring[i] = py::int_(group.wiring[i]);
    result.append(py::make_tuple(members, places(group.inputs), places(group.outputs), wiring));
  }
  return result;
}

}  // namespace

void bind_graph(py::module_& module) {
  module.def("topological_order", &topological_order, py::arg("heads"),
             "Every node that some need, inputs before users; depth first in the order of heads and inputs.");
  module.def("scheduled", &scheduled, py::arg("order"), py::arg("parts"), py::arg("late"), py::arg("times"),
             "The nodes with an operator, each after its inputs; of several by part, mark, time and number.");
  module.def("fusion_groups", &find_fusion_groups, py::arg("nodes"), py::arg("n_outputs"), py::arg("kinds"),
             py::arg("values"), py::arg("heads"), py::arg("kernel"), py::arg("span"), py::arg("searched"),
             "Nodes of a schedule that become one kernel, group by group: (nodes, inputs, outputs, wiring).");
}

}  // namespace mx::symbol
