// SPDX-License-Identifier: Apache-2.0
//
// Groups of nodes that become one kernel, as the pass in mx_symbol/passes/elementwise_fusion.py takes them.
#include <unordered_map>

#include "bindings_graph.hpp"
#include "bindings_schedule.hpp"
#include "fusion.hpp"
#include "mx_core/gil.hpp"

namespace mx::symbol {
namespace {

// The nodes of a schedule as fusion takes them.  `values` tells how many values an operator adds to a kernel, of its
// facts; `kind` tells the kind of a node, and is asked once for nodes of one signature without attributes.
FusionGraph described(const FlatGraph& flat, const std::vector<py::object>& specs, const py::frozenset& forward,
                      const py::function& values, const py::function& kind) {
  FusionGraph graph;
  graph.nodes.resize(flat.n_nodes());
  graph.makers.resize(flat.n_entries());
  graph.heads.resize(flat.n_entries());
  for (uint32_t i = 0; i < flat.n_entries(); ++i) graph.makers[i] = flat.maker(i);
  std::vector<uint32_t> values_of_kind;
  for (uint32_t k = 0; k < flat.n_kinds(); ++k) {
    values_of_kind.push_back(values(py::handle(flat.facts_of_kind(k))).cast<uint32_t>());
  }
  Signatures signatures;
  std::vector<int32_t> kinds;
  std::vector<const void*> signature;
  for (uint32_t i = 0; i < flat.n_nodes(); ++i) {
    FusionNode& node = graph.nodes[i];
    const py::handle object = flat.node(i);
    node.inputs.assign(flat.inputs_begin(i), flat.inputs_end(i));
    for (uint32_t o = flat.first_output(i); o < flat.first_output(i + 1); ++o) node.outputs.push_back(o);
    node.values = values_of_kind[flat.kind(i)];
    if (node.values == 0 || node.inputs.empty()) continue;
    if (has_attributes(object.ptr())) {
      node.kind = kind(object).cast<int32_t>();
      continue;
    }
    signature.assign({flat.facts(i), forward.contains(object) ? object.ptr()->ob_type : nullptr});
    for (const uint32_t entry : node.inputs) signature.push_back(specs[entry].ptr());
    const auto [number, unknown] = signatures.number(signature);
    if (unknown) kinds.push_back(kind(object).cast<int32_t>());
    node.kind = kinds[number];
  }
  return graph;
}

// What tells groups apart whose kernels differ: members, wiring, outputs, and what is read from outside.
class Structures {
 public:
  Structures(const FlatGraph& flat, const FusionGraph& graph, const std::vector<py::object>& specs)
      : flat_(flat), graph_(graph), specs_(specs) {}

  std::pair<uint32_t, bool> number(const FusionGroup& group) {
    signature_.clear();
    for (const uint32_t member : group.members) signature_.push_back(flat_.facts(member));
    const auto append = [this](size_t value) { signature_.push_back(reinterpret_cast<const void*>(value)); };
    append(group.wiring.size());
    for (const uint32_t value : group.wiring) append(value);
    append(group.outputs.size());
    for (const FusionGroup::Place& place : group.outputs) append(size_t{place.member} << 32 | place.index);
    for (const FusionGroup::Place& place : group.inputs) {
      signature_.push_back(specs_[graph_.nodes[group.members[place.member]].inputs[place.index]].ptr());
    }
    return known_.number(signature_);
  }

 private:
  const FlatGraph& flat_;
  const FusionGraph& graph_;
  const std::vector<py::object>& specs_;
  Signatures known_;
  std::vector<const void*> signature_;
};

// Per group: the number of its structure, its nodes, what it reads and what is read of it.
py::list find_fusion_groups(const FlatGraph& flat, const py::dict& specs, const py::frozenset& forward,
                            const py::function& values, const py::function& kind, const py::list& heads,
                            const std::tuple<size_t, size_t, size_t>& kernel, uint32_t span, size_t searched) {
  const std::vector<py::object> known = specs_by_number(flat, specs);
  FusionGraph graph = described(flat, known, forward, values, kind);
  for (const py::handle head : heads) {
    const uint32_t number = flat.number(head.ptr());
    if (number != kOutside) graph.heads[number] = true;  // else a variable that nobody reads
  }
  const FusionLimits limits{std::get<0>(kernel), std::get<1>(kernel), std::get<2>(kernel), span, searched};
  std::vector<FusionGroup> groups;
  {
    const GilRelease released;
    groups = fusion_groups(graph, limits);
  }
  Structures structures(flat, graph, known);
  py::list result;
  for (const FusionGroup& group : groups) {
    py::list members, inputs, outputs;
    for (const uint32_t member : group.members) members.append(py::handle(flat.node(member)));
    for (const FusionGroup::Place& place : group.inputs) {
      inputs.append(flat.entry(graph.nodes[group.members[place.member]].inputs[place.index]));
    }
    for (const FusionGroup::Place& place : group.outputs) {
      outputs.append(flat.entry(graph.nodes[group.members[place.member]].outputs[place.index]));
    }
    result.append(py::make_tuple(structures.number(group).first, members, inputs, outputs));
  }
  return result;
}

}  // namespace

void bind_fusion(py::module_& module) {
  module.def("fusion_groups", &find_fusion_groups, py::arg("graph"), py::arg("specs"), py::arg("forward"),
             py::arg("values"), py::arg("kind"), py::arg("heads"), py::arg("kernel"), py::arg("span"),
             py::arg("searched"),
             "Nodes of a schedule that become one kernel, group by group: (structure, nodes, inputs, outputs); groups "
             "of one structure compute the same of values of the same shapes and types.");
}

}  // namespace mx::symbol
