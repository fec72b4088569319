// SPDX-License-Identifier: Apache-2.0
//
// Which nodes become one kernel.
#include "fusion.hpp"

#include "mx_core/native_tests.hpp"

using mx::symbol::fusion_groups;
using mx::symbol::FusionGraph;
using mx::symbol::FusionGroup;
using mx::symbol::FusionLimits;
using mx::symbol::kNoKind;
using mx::symbol::kVariable;

namespace {

using Numbers = std::vector<uint32_t>;

constexpr FusionLimits kWide = {8, 8, 64, 100, 100};

// Nodes with one output each, which is the entry that is returned.
struct Graph : FusionGraph {
  uint32_t entry(uint32_t maker) {
    makers.push_back(maker);
    heads.push_back(false);
    return static_cast<uint32_t>(makers.size()) - 1;
  }
  uint32_t variable() { return entry(kVariable); }
  uint32_t node(Numbers inputs, int32_t kind = 0) {
    const uint32_t output = entry(static_cast<uint32_t>(nodes.size()));
    nodes.push_back({std::move(inputs), {output}, kind, 1});
    return output;
  }
  uint32_t head(Numbers inputs, int32_t kind = 0) {
    const uint32_t output = node(std::move(inputs), kind);
    heads[output] = true;
    return output;
  }
  // Members of the groups.
  std::vector<Numbers> groups(const FusionLimits& limits = kWide) const {
    std::vector<Numbers> members;
    for (const FusionGroup& group : fusion_groups(*this, limits)) members.push_back(group.members);
    return members;
  }
};

void a_chain_is_one_kernel() {
  Graph graph;
  const uint32_t x = graph.variable(), y = graph.variable();
  const uint32_t a = graph.node({x}), b = graph.node({a, y});
  graph.head({b, a});
  const std::vector<FusionGroup> found = fusion_groups(graph, kWide);
  CHECK(found.size() == 1 && (found[0].members == Numbers{0, 1, 2}));
  CHECK(found[0].inputs.size() == 2 && found[0].inputs[1].member == 1 && found[0].inputs[1].index == 1);
  CHECK(found[0].outputs.size() == 1 && found[0].outputs[0].member == 2);
  CHECK((found[0].wiring == Numbers{0, 2, 1, 3, 2}));  // x and y, then what the members compute
}

void what_others_read_is_an_output() {
  Graph graph;
  const uint32_t a = graph.node({graph.variable()}), b = graph.node({a});
  graph.head({a}, kNoKind);
  graph.head({b}, kNoKind);
  const std::vector<FusionGroup> found = fusion_groups(graph, kWide);
  CHECK(found.size() == 1 && found[0].outputs.size() == 2);
}

void kinds_do_not_mix() {
  Graph graph;
  const uint32_t a = graph.node({graph.variable()}, 0), b = graph.node({a}, 1), c = graph.node({b}, kNoKind);
  graph.head({c}, kNoKind);
  CHECK(graph.groups().empty());
}

void a_node_joins_the_groups_of_all_its_inputs() {
  Graph graph;
  const uint32_t a = graph.node({graph.variable()}), b = graph.node({graph.variable()});
  graph.head({a, b});
  CHECK((graph.groups() == std::vector<Numbers>{{0, 1, 2}}));
}

// Whether two nodes, the second of which reads the first and `more` variables, are one kernel.
bool are_joined(const FusionLimits& limits, uint32_t more = 0, uint32_t between = 0, bool read_outside = false) {
  Graph graph;
  const uint32_t a = graph.node({graph.variable()});
  for (uint32_t i = 0; i < between; ++i) graph.head({graph.variable()}, kNoKind);
  Numbers inputs = {a};
  for (uint32_t i = 0; i < more; ++i) inputs.push_back(graph.variable());
  graph.heads[a] = read_outside;
  graph.head(inputs);
  return !graph.groups(limits).empty();
}

void limits_are_kept() {
  FusionLimits limits = kWide;
  limits.span = 5;
  CHECK(are_joined(limits, 0, 4) && !are_joined(limits, 0, 5));
  limits = kWide;
  limits.inputs = 3;
  CHECK(are_joined(limits, 2) && !are_joined(limits, 3));
  limits = kWide;
  limits.outputs = 1;
  CHECK(are_joined(limits) && !are_joined(limits, 0, 0, true));
  limits = kWide;
  limits.values = 4;  // two nodes, and two inputs
  CHECK(are_joined(limits, 1) && !are_joined(limits, 2));
  limits.values = 2;  // no room for an input
  CHECK(!are_joined(limits));
}

void no_path_leaves_a_group_and_comes_back() {
  Graph graph;
  const uint32_t a = graph.node({graph.variable()}), outside = graph.node({a}, kNoKind);
  graph.head({a, outside});
  CHECK(graph.groups().empty());
}

void a_search_that_is_too_long_is_given_up() {
  Graph graph;
  const uint32_t a = graph.node({graph.variable()});
  uint32_t other = graph.variable();
  for (int i = 0; i < 3; ++i) other = graph.node({other}, kNoKind);
  graph.head({a, other});
  FusionLimits limits = kWide;
  limits.searched = 3;
  CHECK(graph.groups(limits).size() == 1);
  limits.searched = 2;
  CHECK(graph.groups(limits).empty());
}

// Two groups of which each would wait for the other: the second grows behind the back of a node that ended before it.
// The smaller is given up.
void groups_that_wait_for_each_other_are_taken_apart() {
  for (const bool first_is_larger : {false, true}) {
    Graph graph;
    const uint32_t p = graph.node({graph.variable()}, 0), between = graph.node({p}, kNoKind);
    const uint32_t x = graph.node({graph.variable()}, 1);
    if (first_is_larger) {
      const uint32_t more = graph.node({p, x}, 0);
      graph.head({more}, 0);
      graph.head({x, between}, 1);
      CHECK((graph.groups() == std::vector<Numbers>{{0, 3, 4}}));
    } else {
      const uint32_t more = graph.node({x}, 1);
      graph.head({p, x}, 0);
      graph.head({more, between}, 1);
      CHECK((graph.groups() == std::vector<Numbers>{{2, 3, 5}}));
    }
  }
}

}  // namespace

int main() {
  return test::run({
      {"a chain is one kernel", a_chain_is_one_kernel},
      {"what others read is an output", what_others_read_is_an_output},
      {"kinds do not mix", kinds_do_not_mix},
      {"a node joins the groups of all its inputs", a_node_joins_the_groups_of_all_its_inputs},
      {"limits are kept", limits_are_kept},
      {"no path leaves a group and comes back", no_path_leaves_a_group_and_comes_back},
      {"a search that is too long is given up", a_search_that_is_too_long_is_given_up},
      {"groups that wait for each other are taken apart", groups_that_wait_for_each_other_are_taken_apart},
  });
}
