// SPDX-License-Identifier: Apache-2.0
#include "bindings_graph.hpp"
#include "bindings_fixed_point.hpp"
#include "mx_core/pybind_holder.hpp"

namespace mx::symbol {
namespace {

// A table of what `make` says of every entry of the nodes, from its shape and its type code.
py::dict specs_of(const Inference& shapes, const Inference& codes, const py::function& make) {
  const FlatGraph& graph = shapes.graph();
  if (&codes.graph() != &graph) throw py::value_error("[specs_of] expected shapes and types of one graph");
  py::dict table;
  Signatures signatures;
  std::vector<py::object> made;
  for (uint32_t i = 0; i < graph.first_output(graph.n_nodes()); ++i) {
    const py::object &shape = shapes.value(i), &code = codes.value(i);
    const auto [number, fresh] = signatures.number({shape.ptr(), code.ptr()});
    const py::object entry = graph.entry(i);
    if (fresh) made.push_back(make(entry, shape, code));
    table[entry] = made[number];
  }
  return table;
}

// What the entries of the nodes are, if the inputs of every node tell its outputs; else None.  `known` has what they
// read from outside, and the variables; `ask` tells the outputs of a node from its inputs, or None.
py::object forward_specs(const FlatGraph& graph, const py::dict& known, const py::function& ask) {
  py::dict table;
  std::vector<PyObject*> specs(graph.n_entries(), nullptr);
  const auto look_up = [&](uint32_t number) {
    const py::object entry = graph.entry(number);
    PyObject* found = PyDict_GetItemWithError(known.ptr(), entry.ptr());
    if (found == nullptr && PyErr_Occurred() == nullptr) PyErr_SetObject(PyExc_KeyError, entry.ptr());
    if (found == nullptr) throw py::error_already_set();
    specs[number] = found;
  };
  for (uint32_t i = graph.first_output(graph.n_nodes()); i < graph.n_entries(); ++i) look_up(i);
  Signatures signatures;
  std::vector<py::tuple> answers;
  std::vector<const void*> signature;
  for (uint32_t i = 0; i < graph.n_nodes(); ++i) {
    const uint32_t first = graph.first_output(i);
    if (graph.facts(i) == nullptr) {
      look_up(first);
      continue;
    }
    signature.assign(1, graph.facts(i));
    for (const uint32_t* entry = graph.inputs_begin(i); entry != graph.inputs_end(i); ++entry) {
      signature.push_back(specs[*entry]);
    }
    const auto [number, fresh] = signatures.number(signature);
    if (fresh) {
      py::tuple inputs(signature.size() - 1);
      for (size_t k = 1; k < signature.size(); ++k) {
        inputs[k - 1] = py::reinterpret_borrow<py::object>(
            static_cast<PyObject*>(const_cast<void*>(signature[k])));
      }
      const py::object found = ask(py::handle(graph.node(i)), inputs);
      if (found.is_none()) return found;
      answers.push_back(py::tuple(found));
      if (answers.back().size() != graph.first_output(i + 1) - first) {
        throw py::value_error("[forward_specs] expected a spec per output");
      }
    }
    const py::tuple& answer = answers[number];
    for (uint32_t o = first; o < graph.first_output(i + 1); ++o) {
      specs[o] = PyTuple_GET_ITEM(answer.ptr(), o - first);
      table[graph.entry(o)] = py::handle(specs[o]);
    }
  }
  return table;
}

}  // namespace

void bind_inference(py::module_& module) {
  py::class_<FlatGraph, std::shared_ptr<FlatGraph>>(module, "FlatGraph", py::module_local(),
                        "Nodes in an order; their outputs are numbered node by node, then what they read of others.")
      .def("__init__", mx::init<std::shared_ptr<FlatGraph>, py::list>(), py::detail::is_new_style_constructor(),
           py::arg("nodes"))
      .def_property_readonly("nodes", &FlatGraph::nodes, "As given.")
      .def_property_readonly("outside", &FlatGraph::outside, "The entries that are read of other nodes.")
      .def_property_readonly("kinds", &FlatGraph::kinds, "The facts of its operators with their parameters, each once.")
      .def_property_readonly("variables", &FlatGraph::variables, "The nodes without an operator, in order.")
      .def("select", &FlatGraph::select, py::arg("ask"),
           "The nodes with an operator of which ask(facts) says so, in order; asked once for nodes that are alike.")
      .def_property_readonly("n_entries", &FlatGraph::n_entries, "How many numbers there are.")
      .def("number",
           [](const FlatGraph& graph, const py::object& entry) {
             const uint32_t found = graph.number(entry.ptr());
             if (found == kOutside) throw py::key_error(py::repr(entry));
             return found;
           },
           py::arg("entry"), "The number of an entry.")
      .def("forward_specs", &forward_specs, py::arg("known"), py::arg("ask"),
           "What the entries are where inputs tell outputs: ask(node, specs of inputs), once per signature.");
  py::class_<Inference>(module, "Inference", py::module_local(),
                        "What is known of every entry, and the work list of nodes to look at again.")
      .def("__init__", mx::init<std::unique_ptr<Inference>, std::shared_ptr<FlatGraph>, py::function, py::function>(),
           py::detail::is_new_style_constructor(), py::arg("graph"), py::arg("rule"), py::arg("merge"))
      .def("get", [](const Inference& state, const py::object& entry) { return state.value(state.number(entry)); },
           py::arg("entry"), "Present knowledge.")
      .def("assign", &Inference::assign, py::arg("entry"), py::arg("value"),
           "Adds knowledge; raises when it contradicts.")
      .def("run", &Inference::run, "Runs the rules until nothing changes.");
  module.def("specs_of", &specs_of, py::arg("shapes"), py::arg("codes"), py::arg("make"),
             "A table of make(entry, shape, code) for every entry, asked once for each shape and type.");
}

}  // namespace mx::symbol
