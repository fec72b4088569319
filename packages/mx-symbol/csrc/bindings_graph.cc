// SPDX-License-Identifier: Apache-2.0
//
// Walks over graphs of Python nodes, which bind takes many of.
#include "bindings_graph.hpp"

#include "bindings_flat_graph.hpp"
#include "mx_core/pybind_holder.hpp"

#include <memory>
#include <numeric>
#include <queue>
#include <string>
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

// Copies the part of a graph in which entries are replaced; never recurses.
class Replacement {
 public:
  // `copy` is a function of (node, inputs) that makes the node that stands for another.  `specs`: None, or a table to
  // which its outputs are added as what those of the other are.
  Replacement(const py::dict& mapping, const py::function& copy, const py::object& specs)
      : mapping_(mapping), copy_(copy), specs_(specs) {}

  // The entry that stands for one of the old graph.
  py::object of(PyObject* head) {
    PyObject* entry = follow(head);
    std::vector<Open> stack;
    open(node_of(entry), stack);
    while (!stack.empty()) {
      Open& top = stack.back();
      if (top.next == top.inputs.size()) {
        done_[top.node] = finished(top);
        stack.pop_back();
        continue;
      }
      PyObject* below = node_of(top.inputs[top.next++]);
      const auto known = done_.find(below);
      if (known == done_.end()) {
        open(below, stack);
      } else if (!known->second) {
        refuse("node " + quoted_name(below) + " would depend on itself");
      }
    }
    return standing_for(entry);
  }

 private:
  struct Open {
    PyObject* node;
    std::vector<PyObject*> inputs;  // after replacement; the graph and the mapping hold them
    size_t next = 0;
  };

  void open(PyObject* node, std::vector<Open>& stack) {
    if (!done_.try_emplace(node).second) return;
    Open made{node, {}, 0};
    PyObject* inputs = inputs_of(node);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(inputs); ++i) made.inputs.push_back(follow(PyList_GET_ITEM(inputs, i)));
    stack.push_back(std::move(made));
  }

  // The end of a chain of replacements.  Every link is walked once, and all that were passed lead to the end then.
  PyObject* follow(PyObject* entry) {
    PyObject* const start = entry;
    std::vector<Place> passed;
    while (PyObject* next = PyDict_GetItemWithError(mapping_.ptr(), entry)) {
      const Place place{node_of(entry), index_of(entry)};
      const auto known = ends_.find(place);
      if (known != ends_.end()) {
        entry = known->second;
        break;
      }
      passed.push_back(place);
      if (passed.size() > mapping_.size()) refuse(quoted_name(start) + " is replaced by itself");
      entry = next;
    }
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    for (const Place& place : passed) ends_.emplace(place, entry);
    return entry;
  }

  py::object standing_for(PyObject* entry) const {
    const py::object& node = done_.at(node_of(entry));
    if (node.is(py::handle(node_of(entry)))) return py::reinterpret_borrow<py::object>(entry);
    return make_entry(node.ptr(), index_of(entry));
  }

  // The node itself where it reads what it read before.
  py::object finished(const Open& open) const {
    PyObject* old = inputs_of(open.node);
    bool changed = false;
    for (size_t i = 0; i < open.inputs.size(); ++i) {
      PyObject* node = node_of(open.inputs[i]);
      changed |= open.inputs[i] != PyList_GET_ITEM(old, i) || !done_.at(node).is(py::handle(node));
    }
    if (!changed) return py::reinterpret_borrow<py::object>(open.node);
    py::list inputs;
    for (PyObject* entry : open.inputs) inputs.append(standing_for(entry));
    py::object made = copy_(py::handle(open.node), inputs);
    if (specs_.is_none()) return made;
    const size_t n = py::len(attribute(facts_of(open.node).ptr(), "outputs"));
    for (size_t i = 0; i < n; ++i) specs_[make_entry(made.ptr(), i)] = specs_[make_entry(open.node, i)];
    return made;
  }

  const py::dict& mapping_;
  const py::function& copy_;
  const py::object& specs_;
  std::unordered_map<PyObject*, py::object> done_;  // null while it is open
  std::unordered_map<Place, PyObject*, PlaceHash> ends_;  // of chains of replacements; the mapping holds them
};

py::list replaced(const py::list& heads, const py::dict& mapping, const py::function& copy, const py::object& specs) {
  Replacement replacement(mapping, copy, specs);
  py::list result;
  for (const py::handle head : heads) result.append(replacement.of(head.ptr()));
  return result;
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
// (backward, late, time, number).  `graph` has all nodes, inputs before users; late is what computes forward and does
// not have the attribute `mark`.  Variables count as nodes but are not in the result.
std::shared_ptr<FlatGraph> scheduled(const FlatGraph& graph, const py::frozenset& forward, const py::dict& times,
                                     const py::str& mark) {
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
    late[i] = !graph.is_variable(i) && backward[i] == 0 && !has_attribute(graph.node(i), mark) ? 1 : 0;
  }
  using Key = std::tuple<uint8_t, uint8_t, int64_t, uint32_t>;
  std::priority_queue<Key, std::vector<Key>, std::greater<Key>> ready;
  const auto push = [&](uint32_t i) { ready.emplace(backward[i], late[i], asked[i], i); };
  for (uint32_t i = 0; i < n; ++i) {
    if (waiting[i] == 0) push(i);
  }
  std::vector<uint32_t> order;
  order.reserve(n);
  while (!ready.empty()) {
    const uint32_t i = std::get<3>(ready.top());
    ready.pop();
    if (!graph.is_variable(i)) order.push_back(i);
    for (const uint32_t user : users[i]) {
      if (--waiting[user] == 0) push(user);
    }
  }
  return std::make_shared<FlatGraph>(graph, order);
}

// Pairs (node, earlier node that computes the same).  `ask` tells of a node whether it is pure, and whether that holds
// for all nodes of its facts; nodes of different texts under the attribute `group` stay apart.
py::list duplicates(const FlatGraph& graph, const py::frozenset& forward, const py::function& ask,
                    const py::str& group) {
  std::unordered_map<PyObject*, bool> purity;
  const auto is_pure = [&](uint32_t i) {
    const auto known = purity.find(graph.facts(i));
    if (known != purity.end()) return known->second;
    const auto [pure, always] = ask(py::handle(graph.node(i))).cast<std::pair<bool, bool>>();
    if (always) purity.emplace(graph.facts(i), pure);
    return pure;
  };
  std::vector<uint32_t> same(graph.n_entries());
  std::iota(same.begin(), same.end(), 0u);
  std::unordered_map<std::string, size_t> groups;
  const auto group_of = [&](PyObject* node) -> size_t {
    if (!has_attribute(node, group)) return 0;
    const std::string text = py::dict(attribute(node, "attrs"))[group].cast<std::string>();
    return groups.try_emplace(text, groups.size() + 1).first->second;
  };
  const auto number = [](size_t value) { return reinterpret_cast<const void*>(value); };
  Signatures signatures;
  std::vector<uint32_t> firsts;  // by signature
  std::vector<const void*> signature;
  py::list found;
  for (uint32_t i = 0; i < graph.n_nodes(); ++i) {
    if (!is_pure(i)) continue;
    signature.assign({graph.facts(i), number(group_of(graph.node(i)))});
    for (const uint32_t* e = graph.inputs_begin(i); e != graph.inputs_end(i); ++e) signature.push_back(number(same[*e]));
    const auto [place, fresh] = signatures.number(signature);
    if (fresh) {
      firsts.push_back(i);
      continue;
    }
    const py::handle node = graph.node(i), first = graph.node(firsts[place]);
    if (!forward.contains(first) && forward.contains(node)) continue;
    for (uint32_t o = 0; o < graph.first_output(i + 1) - graph.first_output(i); ++o) {
      same[graph.first_output(i) + o] = graph.first_output(firsts[place]) + o;
    }
    found.append(py::make_tuple(node, first));
  }
  return found;
}

}  // namespace

void bind_graph(py::module_& module) {
  module.def("topological_order", &topological_order, py::arg("heads"),
             "Every node that some need, inputs before users; depth first in the order of heads and inputs.");
  module.def("scheduled",
             [](const FlatGraph& graph, const py::frozenset& forward, const py::dict& times, const py::str& mark) {
               return mx::new_object(scheduled(graph, forward, times, mark));
             },
             py::arg("graph"), py::arg("forward"), py::arg("times"), py::arg("mark"),
             "The nodes with an operator, each after its inputs: forward first, of it those with the mark, by time.");
  module.def("replaced", &replaced, py::arg("heads"), py::arg("mapping"), py::arg("copy"),
             py::arg("specs") = py::none(),
             "Heads of a graph in which entries are replaced; copy(node, inputs) makes nodes that read others then.");
  module.def("duplicates", &duplicates, py::arg("graph"), py::arg("forward"), py::arg("ask"), py::arg("group"),
             "Pairs (node, earlier node that computes the same) of a schedule.");
}

}  // namespace mx::symbol
