// SPDX-License-Identifier: Apache-2.0
//
// Walks over graphs of Python nodes, which bind takes many of.
#include "bindings_graph.hpp"

#include "flat_graph.hpp"
#include "fusion.hpp"
#include "mx_core/gil.hpp"

#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace mx::symbol {
namespace {

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

// When each node of a graph asks to run.  One that `given` does not name runs just before its first reader.
std::vector<int64_t> times_of(const FlatGraph& graph, const py::dict& given) {
  const auto n = static_cast<uint32_t>(graph.n_nodes());
  const auto last = static_cast<int64_t>(given.size());
  std::vector<int64_t> times(n, last);
  std::vector<bool> known(n, false);
  for (uint32_t i = 0; i < n; ++i) {
    PyObject* time = PyDict_GetItemWithError(given.ptr(), graph.node(i));
    known[i] = time != nullptr;
    if (known[i]) times[i] = PyLong_AsLongLong(time);
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  }
  for (uint32_t i = n; i-- > 0;) {
    for (const uint32_t* entry = graph.inputs_begin(i); entry != graph.inputs_end(i); ++entry) {
      const uint32_t below = graph.maker(*entry);
      if (!known[below]) times[below] = std::min(times[below], times[i]);
    }
  }
  return times;
}

// Nodes of a graph in the order in which they run: of those whose inputs are there, the one with the least key
// (backward, late, time, number).  `order` has all nodes, inputs before users; late is what computes forward and does
// not have the attribute `mark`.  Variables count as nodes but are not in the result.
py::tuple scheduled(const py::list& order, const py::frozenset& forward, const py::dict& times, const py::str& mark) {
  const FlatGraph graph(order);
  const auto n = static_cast<uint32_t>(graph.n_nodes());
  if (graph.n_entries() != graph.first_output(n)) {
    throw py::value_error("[scheduled] a node reads one that is not in the order");
  }
  const std::vector<int64_t> asked = times_of(graph, times);
  std::vector<std::vector<uint32_t>> users(n);
  std::vector<uint32_t> waiting(n, 0);
  std::vector<uint8_t> backward(n), late(n);
  for (uint32_t i = 0; i < n; ++i) {
    for (const uint32_t* entry = graph.inputs_begin(i); entry != graph.inputs_end(i); ++entry) {
      std::vector<uint32_t>& readers = users[graph.maker(*entry)];
      if (!readers.empty() && readers.back() == i) continue;  // one node that is read twice
      readers.push_back(i);
      ++waiting[i];
    }
    backward[i] = forward.contains(py::handle(graph.node(i))) ? 0 : 1;
    late[i] = graph.facts(i) != nullptr && backward[i] == 0 && !has_attribute(graph.node(i), mark) ? 1 : 0;
  }
  using Key = std::tuple<uint8_t, uint8_t, int64_t, uint32_t>;
  std::priority_queue<Key, std::vector<Key>, std::greater<Key>> ready;
  const auto push = [&](uint32_t i) { ready.emplace(backward[i], late[i], asked[i], i); };
  for (uint32_t i = 0; i < n; ++i) {
    if (waiting[i] == 0) push(i);
  }
  py::list result;
  while (!ready.empty()) {
    const uint32_t i = std::get<3>(ready.top());
    ready.pop();
    if (graph.facts(i) != nullptr) result.append(py::handle(graph.node(i)));
    for (const uint32_t user : users[i]) {
      if (--waiting[user] == 0) push(user);
    }
  }
  return py::tuple(result);
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
  module.def("scheduled", &scheduled, py::arg("order"), py::arg("forward"), py::arg("times"), py::arg("mark"),
             "The nodes with an operator, each after its inputs: forward first, of it those with the mark, by time.");
  module.def("fusion_groups", &find_fusion_groups, py::arg("nodes"), py::arg("n_outputs"), py::arg("kinds"),
             py::arg("values"), py::arg("heads"), py::arg("kernel"), py::arg("span"), py::arg("searched"),
             "Nodes of a schedule that become one kernel, group by group: (nodes, inputs, outputs, wiring).");
}

}  // namespace mx::symbol
