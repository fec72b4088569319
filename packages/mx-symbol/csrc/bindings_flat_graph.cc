// SPDX-License-Identifier: Apache-2.0
#include "bindings_flat_graph.hpp"

#include "made_once.hpp"

namespace mx::symbol {
namespace {

// Attributes and types that walks ask for.
struct Names {
  PyObject* inputs = PyUnicode_InternFromString("inputs");
  PyObject* op = PyUnicode_InternFromString("op");
  PyObject* params = PyUnicode_InternFromString("params");
  PyObject* asked = PyUnicode_InternFromString("_asked");
  PyObject* known = PyUnicode_InternFromString("_facts");
  PyObject* attrs = PyUnicode_InternFromString("attrs");
  PyObject* facts = PyUnicode_InternFromString("facts");
  PyObject* outputs = PyUnicode_InternFromString("outputs");
  PyTypeObject* entry = reinterpret_cast<PyTypeObject*>(
      py::object(py::module_::import("mx_symbol.graph.node").attr("Entry")).release().ptr());
  static const Names& get() {
    static std::atomic<const Names*> names{nullptr};
    return made_once(names, [] { return Names(); });
  }
};

}  // namespace

py::object attribute(PyObject* object, PyObject* name) {
  PyObject* found = PyObject_GetAttr(object, name);
  if (found == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(found);
}

py::object attribute(PyObject* object, const char* name) {
  PyObject* found = PyObject_GetAttrString(object, name);
  if (found == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(found);
}

std::string text_of(const py::object& name) {
  PyObject* bytes = PyUnicode_AsEncodedString(name.ptr(), "utf-8", "backslashreplace");
  if (bytes == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(bytes);
}

void refuse(const std::string& message) {
  const py::object type = py::module_::import("mx_core.errors").attr("PluginError");
  PyErr_SetString(type.ptr(), message.c_str());
  throw py::error_already_set();
}

std::string quoted_name(PyObject* named) { return py::repr(attribute(named, "name")).cast<std::string>(); }

PyObject* inputs_of(PyObject* node) {
  const py::object found = attribute(node, Names::get().inputs);
  if (!PyList_Check(found.ptr())) throw py::type_error("[Node] inputs: expected a list of entries");
  return found.ptr();
}

PyObject* node_of(PyObject* entry) {
  if (!PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) != 2) {
    throw py::type_error("[Node] inputs: expected entries (node, index)");
  }
  return PyTuple_GET_ITEM(entry, 0);
}

size_t index_of(PyObject* entry) {
  const size_t index = PyLong_AsSize_t(PyTuple_GET_ITEM(entry, 1));
  if (index == static_cast<size_t>(-1) && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return index;
}

bool has_attributes(PyObject* node) {
  const py::object attrs = attribute(node, Names::get().attrs);
  if (!PyDict_Check(attrs.ptr())) throw py::type_error("[Node] attrs: expected a dict");
  return PyDict_GET_SIZE(attrs.ptr()) != 0;
}

bool has_attribute(PyObject* node, const py::str& name) {
  if (!has_attributes(node)) return false;
  const py::object attrs = attribute(node, Names::get().attrs);
  const int found = PyDict_Contains(attrs.ptr(), name.ptr());
  if (found < 0) throw py::error_already_set();
  return found != 0;
}

bool is_variable(PyObject* node) { return attribute(node, Names::get().op).is_none(); }

py::object facts_of(PyObject* node) {
  const Names& names = Names::get();
  // What the node has found out of its present parameters already.
  if (attribute(node, names.asked).is(attribute(node, names.params))) return attribute(node, names.known);
  return attribute(node, names.facts);
}

py::object make_entry(PyObject* node, size_t index) {
  PyTypeObject* type = Names::get().entry;
  PyObject* made = type->tp_alloc(type, 2);
  if (made == nullptr) throw py::error_already_set();
  PyTuple_SET_ITEM(made, 0, Py_NewRef(node));
  PyTuple_SET_ITEM(made, 1, PyLong_FromSize_t(index));
  return py::reinterpret_steal<py::object>(made);
}

FlatGraph::FlatGraph(const py::list& nodes) : nodes_(nodes) {
  const size_t n = nodes_.size();
  kinds_.reserve(n);
  numbers_.reserve(n);
  first_outputs_.reserve(n + 1);
  first_inputs_.reserve(n + 1);
  std::vector<py::object> facts;
  std::vector<uint32_t> widths;                   // outputs by kind
  std::unordered_map<PyObject*, uint32_t> kinds;  // by facts
  for (uint32_t i = 0; i < n; ++i) {
    numbers_.emplace(node(i), i);
    uint32_t kind = kOutside, width = 1;
    if (!mx::symbol::is_variable(node(i))) {
      py::object found = facts_of(node(i));
      const auto [known, fresh] = kinds.try_emplace(found.ptr(), static_cast<uint32_t>(facts.size()));
      kind = known->second;
      if (fresh) {
        widths.push_back(static_cast<uint32_t>(py::len(attribute(found.ptr(), Names::get().outputs))));
        facts.push_back(std::move(found));
      }
      width = widths[kind];
    }
    kinds_.push_back(kind);
    first_outputs_.push_back(static_cast<uint32_t>(makers_.size()));
    makers_.insert(makers_.end(), width, i);
  }
  facts_ = std::make_shared<const std::vector<py::object>>(std::move(facts));
  first_outputs_.push_back(static_cast<uint32_t>(makers_.size()));
  first_inputs_.push_back(0);
  for (uint32_t i = 0; i < n; ++i) {
    PyObject* inputs = inputs_of(node(i));
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(inputs); ++k) {
      PyObject* entry = PyList_GET_ITEM(inputs, k);
      const auto below = numbers_.find(node_of(entry));
      inputs_.push_back(below == numbers_.end() ? number_outside(entry)
                                                : number_inside(below->second, entry));
    }
    first_inputs_.push_back(static_cast<uint32_t>(inputs_.size()));
  }
}

FlatGraph::FlatGraph(const FlatGraph& whole, const std::vector<uint32_t>& order)
    : nodes_(order.size()), facts_(whole.facts_) {
  std::vector<uint32_t> numbers(whole.n_entries(), kOutside);  // by those of the whole
  for (uint32_t i = 0; i < order.size(); ++i) {
    nodes_[i] = py::handle(whole.node(order[i]));
    numbers_.emplace(node(i), i);
    kinds_.push_back(whole.kinds_[order[i]]);
    first_outputs_.push_back(static_cast<uint32_t>(makers_.size()));
    for (uint32_t o = whole.first_output(order[i]); o < whole.first_output(order[i] + 1); ++o) {
      numbers[o] = static_cast<uint32_t>(makers_.size());
      makers_.push_back(i);
    }
  }
  first_outputs_.push_back(static_cast<uint32_t>(makers_.size()));
  first_inputs_.push_back(0);
  for (const uint32_t i : order) {
    for (const uint32_t* e = whole.inputs_begin(i); e != whole.inputs_end(i); ++e) {
      if (numbers[*e] == kOutside) numbers[*e] = number_outside(whole.entry(*e).ptr());
      inputs_.push_back(numbers[*e]);
    }
    first_inputs_.push_back(static_cast<uint32_t>(inputs_.size()));
  }
}

uint32_t FlatGraph::number_inside(uint32_t node, PyObject* entry) const {
  const size_t index = index_of(entry), width = first_outputs_[node + 1] - first_outputs_[node];
  if (index >= width) {
    refuse("node " + quoted_name(node_of(entry)) + " has no output " + std::to_string(index) + "; it has " +
           std::to_string(width));
  }
  return first_outputs_[node] + static_cast<uint32_t>(index);
}

uint32_t FlatGraph::number_outside(PyObject* entry) {
  const auto next = static_cast<uint32_t>(makers_.size());
  const auto [place, fresh] = outside_.try_emplace({node_of(entry), index_of(entry)}, next);
  if (fresh) {
    makers_.push_back(kOutside);
    outside_entries_.push_back(py::reinterpret_borrow<py::object>(entry));
  }
  return place->second;
}

uint32_t FlatGraph::number(PyObject* entry) const {
  const auto inside = numbers_.find(node_of(entry));
  if (inside != numbers_.end()) return number_inside(inside->second, entry);
  const auto outside = outside_.find({node_of(entry), index_of(entry)});
  return outside == outside_.end() ? kOutside : outside->second;
}

py::object FlatGraph::entry(uint32_t number) const {
  const uint32_t maker = makers_.at(number);
  if (maker == kOutside) return outside_entries_[number - first_outputs_.back()];
  return make_entry(node(maker), number - first_outputs_[maker]);
}

py::list FlatGraph::outside() const {
  py::list result;
  for (const py::object& entry : outside_entries_) result.append(entry);
  return result;
}

py::list FlatGraph::kinds() const {
  py::list result;
  for (const py::object& facts : *facts_) result.append(facts);
  return result;
}

py::list FlatGraph::variables() const {
  py::list result;
  for (uint32_t i = 0; i < n_nodes(); ++i) {
    if (is_variable(i)) result.append(py::handle(node(i)));
  }
  return result;
}

py::list FlatGraph::select(const py::function& ask) const {
  std::vector<bool> wanted;
  for (const py::object& facts : *facts_) wanted.push_back(ask(facts).cast<bool>());
  py::list result;
  for (uint32_t i = 0; i < n_nodes(); ++i) {
    if (!is_variable(i) && wanted[kinds_[i]]) result.append(py::handle(node(i)));
  }
  return result;
}

}  // namespace mx::symbol
