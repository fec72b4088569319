// SPDX-License-Identifier: Apache-2.0
#include "fusion.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace mx::symbol {
namespace {

constexpr uint32_t kNoGroup = UINT32_MAX;

// A set of numbers that is emptied in constant time.
class Marks {
 public:
  explicit Marks(size_t n) : stamps_(n, 0) {}
  void clear() noexcept { ++stamp_; }
  bool has(uint32_t i) const noexcept { return stamps_[i] == stamp_; }
  // False when it was there already.
  bool add(uint32_t i) noexcept { return std::exchange(stamps_[i], stamp_) != stamp_; }

 private:
  std::vector<uint32_t> stamps_;
  uint32_t stamp_ = 1;
};

struct Group {
  uint32_t first = 0;  // places of the earliest and the latest in the schedule
  uint32_t last = 0;
  size_t values = 0;
  std::vector<uint32_t> members;
  std::vector<uint32_t> inputs;   // entries read from outside
  std::vector<uint32_t> outputs;  // entries read of them outside
};

class Groups {
 public:
  Groups(const FusionGraph& graph, const FusionLimits& limits)
      : graph_(graph), limits_(limits), readers_(graph.makers.size()), owner_(graph.nodes.size(), kNoGroup),
        inside_(graph.nodes.size()), seen_(graph.nodes.size()), taken_(graph.makers.size()) {
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
      for (const uint32_t entry : graph.nodes[i].inputs) readers_[entry].push_back(i);
    }
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) add(i);
  }

  std::vector<FusionGroup> found() {
    std::vector<uint32_t> left;
    Marks listed(groups_.size());
    for (const uint32_t group : owner_) {
      if (group != kNoGroup && listed.add(group) && groups_[group].members.size() > 1) left.push_back(group);
    }
    while (const std::optional<uint32_t> smallest = smallest_of_a_circle(left)) {
      left.erase(std::find(left.begin(), left.end(), *smallest));
    }
    std::vector<FusionGroup> result;
    std::vector<uint32_t> numbers(graph_.makers.size());
    for (const uint32_t group : left) result.push_back(described(std::move(groups_[group].members), numbers));
    return result;
  }

 private:
  // `numbers` has room for one per entry.
  FusionGroup described(std::vector<uint32_t> members, std::vector<uint32_t>& numbers) {
    std::sort(members.begin(), members.end());
    FusionGroup made;
    made.members = std::move(members);
    const auto n = static_cast<uint32_t>(made.members.size());
    inside_.clear();
    taken_.clear();
    for (const uint32_t member : made.members) inside_.add(member);
    for (uint32_t m = 0; m < n; ++m) {
      const std::vector<uint32_t>& inputs = graph_.nodes[made.members[m]].inputs;
      for (uint32_t k = 0; k < inputs.size(); ++k) {
        if (is_inside(graph_.makers[inputs[k]]) || !taken_.add(inputs[k])) continue;
        numbers[inputs[k]] = static_cast<uint32_t>(made.inputs.size());
        made.inputs.push_back({m, k});
      }
    }
    auto next = static_cast<uint32_t>(made.inputs.size());
    for (uint32_t m = 0; m < n; ++m) {
      const FusionNode& node = graph_.nodes[made.members[m]];
      for (const uint32_t entry : node.inputs) made.wiring.push_back(numbers[entry]);
      for (uint32_t k = 0; k < node.outputs.size(); ++k) {
        numbers[node.outputs[k]] = next++;
        if (is_read_outside(node.outputs[k])) made.outputs.push_back({m, k});
      }
    }
    return made;
  }

  // Of an entry of a node that is marked as inside.
  bool is_read_outside(uint32_t entry) const {
    const auto outside = [this](uint32_t reader) { return !inside_.has(reader); };
    const std::vector<uint32_t>& readers = readers_[entry];
    return graph_.heads[entry] || std::any_of(readers.begin(), readers.end(), outside);
  }

  // Puts the next node into a group together with the groups that it connects.
  void add(uint32_t time) {
    const FusionNode& node = graph_.nodes[time];
    if (node.kind == kNoKind) return;
    Group joined;
    joined.first = joined.last = time;
    joined.values = node.values;
    joined.members = {time};
    std::vector<uint32_t> near;
    taken_.clear();
    for (const uint32_t entry : node.inputs) {
      if (!taken_.add(entry)) continue;
      joined.inputs.push_back(entry);
      const uint32_t group = graph_.makers[entry] == kVariable ? kNoGroup : owner_[graph_.makers[entry]];
      if (group != kNoGroup && std::find(near.begin(), near.end(), group) == near.end()) near.push_back(group);
    }
    for (const uint32_t entry : node.outputs) {
      if (graph_.heads[entry] || !readers_[entry].empty()) joined.outputs.push_back(entry);
    }
    for (const uint32_t group : near) {
      const Group& other = groups_[group];
      if (graph_.nodes[other.members.front()].kind != node.kind) continue;
      if (std::max(other.last, joined.last) - std::min(other.first, joined.first) > limits_.span) continue;
      if (other.values + joined.values >= limits_.values) continue;  // it has an input too
      Group together = join(other, joined);
      if (fits(together) && !returns(together)) joined = std::move(together);
    }
    for (const uint32_t member : joined.members) owner_[member] = static_cast<uint32_t>(groups_.size());
    groups_.push_back(std::move(joined));
  }

  // Both as one; leaves its members marked as inside.
  Group join(const Group& one, const Group& other) {
    Group both;
    both.first = std::min(one.first, other.first);
    both.last = std::max(one.last, other.last);
    both.values = one.values + other.values;
    inside_.clear();
    taken_.clear();
    for (const Group* group : {&one, &other}) {
      both.members.insert(both.members.end(), group->members.begin(), group->members.end());
    }
    for (const uint32_t member : both.members) inside_.add(member);
    for (const Group* group : {&one, &other}) {
      for (const uint32_t entry : group->inputs) {
        if (!is_inside(graph_.makers[entry]) && taken_.add(entry)) both.inputs.push_back(entry);
      }
      for (const uint32_t entry : group->outputs) {
        if (is_read_outside(entry)) both.outputs.push_back(entry);
      }
    }
    return both;
  }

  bool is_inside(uint32_t node) const noexcept { return node != kVariable && inside_.has(node); }

  bool fits(const Group& group) const noexcept {
    return group.inputs.size() <= limits_.inputs && group.outputs.size() <= limits_.outputs &&
           group.inputs.size() + group.values <= limits_.values;
  }

  // True when something that a group, which is marked as inside, reads may depend on it.
  bool returns(const Group& group) {
    std::vector<uint32_t> stack;
    for (const uint32_t entry : group.inputs) stack.push_back(graph_.makers[entry]);
    seen_.clear();
    size_t n_seen = 0;
    while (!stack.empty()) {
      const uint32_t below = stack.back();
      stack.pop_back();
      if (below == kVariable || seen_.has(below) || inside_.has(below)) continue;
      const uint32_t other = owner_[below];
      if ((other == kNoGroup ? below : groups_[other].last) < group.first) continue;  // it ran before the group
      if (n_seen >= limits_.searched) return true;
      const std::vector<uint32_t> alone{below};
      const std::vector<uint32_t>& members = other == kNoGroup ? alone : groups_[other].members;
      for (const uint32_t member : members) n_seen += seen_.add(member) ? 1 : 0;
      for (const uint32_t member : members) {
        for (const uint32_t entry : graph_.nodes[member].inputs) {
          const uint32_t read = graph_.makers[entry];
          if (read == kVariable || seen_.has(read)) continue;
          if (inside_.has(read)) return true;
          stack.push_back(read);
        }
      }
    }
    return false;
  }

  // Groups may wait for each other: one that had ended when another was looked at may have grown since.  Of such a
  // circle, if there is one, the smallest group.
  std::optional<uint32_t> smallest_of_a_circle(const std::vector<uint32_t>& groups) {
    // A unit is a group or a node that is in none of them.
    const auto n_nodes = static_cast<uint32_t>(graph_.nodes.size());
    std::vector<uint32_t> unit(n_nodes);
    for (uint32_t i = 0; i < n_nodes; ++i) unit[i] = i;
    for (const uint32_t group : groups) {
      for (const uint32_t member : groups_[group].members) unit[member] = n_nodes + group;
    }
    const size_t n_units = n_nodes + groups_.size();
    std::vector<std::vector<uint32_t>> waits(n_units), users(n_units);
    for (uint32_t i = 0; i < n_nodes; ++i) {
      for (const uint32_t entry : graph_.nodes[i].inputs) {
        const uint32_t maker = graph_.makers[entry];
        if (maker != kVariable && unit[maker] != unit[i]) waits[unit[i]].push_back(unit[maker]);
      }
    }
    std::vector<size_t> waiting(n_units, 0);
    std::vector<uint32_t> ready;
    for (uint32_t i = 0; i < n_units; ++i) {
      for (const uint32_t other : waits[i]) users[other].push_back(i);
      waiting[i] = waits[i].size();
      if (waiting[i] == 0) ready.push_back(i);
    }
    while (!ready.empty()) {
      const uint32_t done = ready.back();
      ready.pop_back();
      for (const uint32_t user : users[done]) {
        if (--waiting[user] == 0) ready.push_back(user);
      }
    }
    const auto stuck = [&](uint32_t i) { return waiting[i] != 0; };
    uint32_t at = n_nodes;
    for (uint32_t i = 0; i < n_nodes && at == n_nodes; ++i) {
      if (stuck(unit[i])) at = unit[i];
    }
    if (at == n_nodes) return std::nullopt;
    std::vector<uint32_t> path;
    Marks walked(n_units);
    while (walked.add(at)) {  // whatever is stuck waits for something that is stuck
      path.push_back(at);
      at = *std::find_if(waits[at].begin(), waits[at].end(), stuck);
    }
    std::optional<uint32_t> smallest;
    for (auto i = std::find(path.begin(), path.end(), at); i != path.end(); ++i) {
      if (*i < n_nodes) continue;
      const uint32_t group = *i - n_nodes;
      if (!smallest || groups_[group].members.size() < groups_[*smallest].members.size()) smallest = group;
    }
    return smallest;
  }

  const FusionGraph& graph_;
  const FusionLimits& limits_;
  std::vector<std::vector<uint32_t>> readers_;  // per entry
  std::vector<uint32_t> owner_;                 // per node its group
  std::vector<Group> groups_;                   // also those that have gone into others
  Marks inside_, seen_, taken_;
};

}  // namespace

std::vector<FusionGroup> fusion_groups(const FusionGraph& graph, const FusionLimits& limits) {
  return Groups(graph, limits).found();
}

}  // namespace mx::symbol
