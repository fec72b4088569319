// SPDX-License-Identifier: Apache-2.0
//
// What is known of every entry of a graph, shapes or types, by the rules of its operators, run to a common fixed point.
//
// The first round looks at every node, inputs before users, which is all there is to do where the inputs tell
// everything.  Each later change wakes only the nodes that touch the changed entry, so the time is linear in the size
// of the graph for rules that need a bounded number of visits.  A rule is asked once for all nodes that are alike.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "bindings_flat_graph.hpp"

namespace mx::symbol {

class Inference {
 public:
  // `rule` is a function of (node, inputs, outputs) that tells both anew; `merge` one of (entry, old, new).
  Inference(std::shared_ptr<const FlatGraph> graph, py::function rule, py::function merge);

  const FlatGraph& graph() const noexcept { return *graph_; }
  const py::object& value(uint32_t number) const { return values_.at(number); }
  // The number of an entry; a KeyError if the graph does not have it.
  uint32_t number(const py::object& entry) const;
  // Adds knowledge; raises what `merge` raises when it contradicts.
  void assign(const py::object& entry, const py::object& value);
  // Runs the rules until nothing changes.  Where one raises, the next run goes on with it.
  void run();

 private:
  // What a rule says of nodes of one signature.  What was known is held, so that nothing else takes its address.
  struct Answer {
    py::tuple inputs, outputs;          // what was known
    py::tuple new_inputs, new_outputs;  // what is known then
    bool is_known = false;              // the rule did not raise
  };

  const Answer& asked(uint32_t node);
  py::tuple values_of(const uint32_t* begin, const uint32_t* end) const;
  void sweep(uint32_t node);
  void visit(uint32_t node);
  void take_inputs(uint32_t node, const Answer& answer);
  void add(uint32_t number, const py::object& value);
  py::object merged(uint32_t number, const py::object& value) const;
  void wake(uint32_t node);
  void wake_users(uint32_t number);

  std::shared_ptr<const FlatGraph> graph_;
  py::function rule_, merge_;
  std::vector<py::object> values_;  // per entry
  Signatures signatures_;
  std::deque<Answer> answers_;  // by signature
  std::vector<const void*> signature_;
  std::vector<uint32_t> first_users_, users_;  // per entry; made when somebody is woken first
  std::deque<uint32_t> queue_;
  std::vector<bool> queued_;  // per node
  uint32_t swept_ = 0;        // nodes that the first round has looked at
  bool began_ = false;        // the first round
};

}  // namespace mx::symbol
