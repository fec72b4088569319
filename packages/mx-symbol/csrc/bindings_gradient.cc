// SPDX-License-Identifier: Apache-2.0
//
// Reverse accumulation over a flat graph; mx_symbol/graph/gradient.py says what is computed.
#include "bindings_flat_graph.hpp"
#include "bindings_graph.hpp"

#include <algorithm>
#include <memory>
#include <unordered_set>

namespace mx::symbol {
namespace {

// A value that a gradient is computed from: the gradient of an output, an input or an output of the forward node, an
// output of a node of the gradient, or what an input of such a node is.
enum class Kind : uint32_t { kOutGrad, kInput, kOutput, kNode, kNodeInput };

struct Term {
  Kind kind;
  uint32_t index, output;
};

// A node of the gradient.
struct Step {
  py::object op, params;
  py::str suffix;
  std::vector<Term> inputs;
};

// The gradient of an operator with its parameters.
struct Recipe {
  std::vector<uint32_t> read;  // outputs whose gradients it reads
  std::vector<Step> steps;
  std::vector<std::pair<uint32_t, Term>> targets;  // of inputs that have one
};

Term term_of(const py::handle given) {
  const auto [kind, index, output] = given.cast<std::tuple<uint32_t, uint32_t, uint32_t>>();
  if (kind > static_cast<uint32_t>(Kind::kNodeInput)) throw py::value_error("[gradient] unknown kind of value");
  return {static_cast<Kind>(kind), index, output};
}

Recipe recipe_of(const py::tuple& given) {
  Recipe made;
  made.read = given[0].cast<std::vector<uint32_t>>();
  for (const py::handle item : given[1]) {
    const auto step = py::reinterpret_borrow<py::tuple>(item);
    made.steps.push_back({step[0], step[1], step[2], {}});
    for (const py::handle term : step[3]) made.steps.back().inputs.push_back(term_of(term));
  }
  uint32_t position = 0;
  for (const py::handle target : given[2]) {
    if (!target.is_none()) made.targets.emplace_back(position, term_of(target));
    ++position;
  }
  return made;
}

// How nodes are made, in Python.
struct Makers {
  py::object node;               // the class
  py::str group;                 // the attribute that gradients take over
  std::pair<py::object, py::object> add;  // operator and parameters of a sum of two
  py::function zeros;            // (entry) -> node
  py::function total;            // (entry, parts) -> node
  py::function recipe;           // (facts) -> recipe, or None where nothing has a gradient
  size_t chained;                // an entry with so many readers sums its gradient as the parts come
};

class Backward {
 public:
  Backward(const FlatGraph& graph, const py::list& variables, const Makers& makers)
      : graph_(graph), makers_(makers), useful_(graph.n_nodes(), false), readers_(graph.n_entries(), 0),
        parts_(graph.n_entries()) {
    for (const py::handle variable : variables) {
      const uint32_t number = graph.number(make_entry(variable.ptr(), 0).ptr());
      if (number != kOutside) useful_[graph.maker(number)] = true;
    }
    for (uint32_t i = 0; i < graph.n_nodes(); ++i) {
      const auto is_useful = [&](uint32_t entry) { return useful_[graph_.maker(entry)]; };
      if (!std::any_of(graph.inputs_begin(i), graph.inputs_end(i), is_useful)) continue;
      useful_[i] = true;
      for (const uint32_t* e = graph.inputs_begin(i); e != graph.inputs_end(i); ++e) ++readers_[*e];
    }
  }

  void contribute(uint32_t entry, py::object grad) {
    std::vector<py::object>& parts = parts_.at(entry);
    if (!parts.empty() && readers_[entry] >= makers_.chained) {
      py::list inputs;
      inputs.append(parts[0]);
      inputs.append(grad);
      PyObject* forward = graph_.node(graph_.maker(entry));
      parts[0] = make_entry(node(makers_.add.first, makers_.add.second, forward, py::str("_sum_grad"), inputs), 0);
    } else {
      parts.push_back(std::move(grad));
    }
  }

  void run() {
    for (auto i = static_cast<uint32_t>(graph_.n_nodes()); i-- > 0;) {
      if (graph_.facts(i) != nullptr && useful_[i]) differentiate(i);
    }
  }

  // The whole gradient of an entry, or none; called once, when all its users are done.
  py::object sum(uint32_t entry) {
    const std::vector<py::object> parts = std::exchange(parts_.at(entry), {});
    if (parts.empty()) return py::none();
    if (parts.size() == 1) return parts[0];
    py::list all;
    for (const py::object& part : parts) all.append(part);
    return make_entry(keep(makers_.total(graph_.entry(entry), all)), 0);
  }

  // The nodes that some entries need, in the order in which they were made.
  py::list needed(const py::list& grads) const {
    std::unordered_set<PyObject*> open, found;
    for (const py::object& made : made_) open.insert(made.ptr());
    std::vector<PyObject*> stack;
    for (const py::handle grad : grads) {
      if (!grad.is_none()) stack.push_back(node_of(grad.ptr()));
    }
    while (!stack.empty()) {
      PyObject* const at = stack.back();
      stack.pop_back();
      if (open.count(at) == 0 || !found.insert(at).second) continue;
      PyObject* inputs = inputs_of(at);
      for (Py_ssize_t k = 0; k < PyList_GET_SIZE(inputs); ++k) stack.push_back(node_of(PyList_GET_ITEM(inputs, k)));
    }
    py::list result;
    for (const py::object& made : made_) {
      if (found.count(made.ptr()) != 0) result.append(made);
    }
    return result;
  }

 private:
  const Recipe* recipe(PyObject* facts) {
    const auto [place, fresh] = recipes_.try_emplace(facts);
    if (fresh) {
      const py::object given = makers_.recipe(py::handle(facts));
      if (!given.is_none()) place->second = std::make_unique<Recipe>(recipe_of(given));
    }
    return place->second.get();
  }

  void differentiate(uint32_t i) {
    const Recipe* const recipe = this->recipe(graph_.facts(i));
    if (recipe == nullptr) return;
    std::vector<py::object> incoming;
    for (uint32_t o = graph_.first_output(i); o < graph_.first_output(i + 1); ++o) incoming.push_back(sum(o));
    const auto is_zero = [&](uint32_t output) { return incoming.at(output).is_none(); };
    // Gradients are linear in the out-gradients; those of losses do not depend on them.
    if (!recipe->read.empty() && std::all_of(recipe->read.begin(), recipe->read.end(), is_zero)) return;
    PyObject* const forward = graph_.node(i);
    std::vector<PyObject*> made;
    const auto input = [](PyObject* of, uint32_t position) {
      PyObject* inputs = inputs_of(of);
      if (position >= PyList_GET_SIZE(inputs)) throw py::index_error("[gradient] there is no such input");
      return py::reinterpret_borrow<py::object>(PyList_GET_ITEM(inputs, position));
    };
    const auto value = [&](const Term& term) -> py::object {
      switch (term.kind) {
        case Kind::kInput: return input(forward, term.index);
        case Kind::kOutput: return make_entry(forward, term.index);
        case Kind::kNode: return make_entry(made.at(term.index), term.output);
        case Kind::kNodeInput: return input(made.at(term.index), term.output);
        case Kind::kOutGrad: break;
      }
      py::object& grad = incoming.at(term.index);
      if (grad.is_none()) grad = make_entry(keep(makers_.zeros(make_entry(forward, term.index))), 0);
      return grad;
    };
    for (const Step& step : recipe->steps) {
      py::list inputs;
      for (const Term& term : step.inputs) inputs.append(value(term));
      made.push_back(node(step.op, step.params, forward, step.suffix, inputs));
    }
    const uint32_t* const inputs = graph_.inputs_begin(i);
    const auto n_inputs = static_cast<uint32_t>(graph_.inputs_end(i) - inputs);
    for (const auto& [position, term] : recipe->targets) {
      if (position >= n_inputs || !useful_[graph_.maker(inputs[position])]) continue;
      contribute(inputs[position], value(term));
    }
  }

  PyObject* node(const py::object& op, const py::object& params, PyObject* forward, const py::str& suffix,
                 const py::list& inputs) {
    const py::str name = attribute(forward, "name") + suffix;
    py::object attrs = py::none();
    if (has_attribute(forward, makers_.group)) {
      py::dict kept;
      kept[makers_.group] = py::dict(attribute(forward, "attrs"))[makers_.group];
      attrs = std::move(kept);
    }
    return keep(makers_.node(op, params, name, attrs, inputs));
  }

  PyObject* keep(py::object made) {
    made_.push_back(std::move(made));
    return made_.back().ptr();
  }

  const FlatGraph& graph_;
  const Makers& makers_;
  std::vector<bool> useful_;      // nodes that depend on a variable
  std::vector<size_t> readers_;   // of entries, among those nodes
  std::vector<std::vector<py::object>> parts_;  // of the gradient of each entry
  std::unordered_map<PyObject*, std::unique_ptr<Recipe>> recipes_;  // by facts
  std::vector<py::object> made_;
};

// Gradients of the sum of head · head_grad by variables, None for zero, and the nodes that compute them.
py::tuple gradient(const FlatGraph& graph, const py::list& heads, const py::list& head_grads,
                   const py::list& variables, const py::object& node, const py::str& group,
                   const std::pair<py::object, py::object>& add, const py::function& zeros,
                   const py::function& total, const py::function& recipe, size_t chained) {
  const Makers makers{node, group, add, zeros, total, recipe, chained};
  Backward backward(graph, variables, makers);
  if (heads.size() != head_grads.size()) throw py::value_error("[gradient] expected a gradient per head");
  for (size_t i = 0; i < heads.size(); ++i) {
    const py::object grad = head_grads[i];
    if (!grad.is_none()) backward.contribute(graph.number(py::object(heads[i]).ptr()), grad);
  }
  backward.run();
  py::list grads;
  for (const py::handle variable : variables) {
    const uint32_t number = graph.number(make_entry(variable.ptr(), 0).ptr());
    grads.append(number == kOutside ? py::none() : backward.sum(number));
  }
  return py::make_tuple(grads, backward.needed(grads));
}

}  // namespace

void bind_gradient(py::module_& module) {
  module.def("gradient", &gradient, py::arg("graph"), py::arg("heads"), py::arg("head_grads"), py::arg("variables"),
             py::arg("node"), py::arg("group"), py::arg("add"), py::arg("zeros"), py::arg("total"),
             py::arg("recipe"), py::arg("chained"),
             "Gradients by variables, None for zero, and the nodes that compute them in the order they were made.");
}

}  // namespace mx::symbol
