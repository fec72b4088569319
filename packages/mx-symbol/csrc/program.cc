// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <algorithm>

namespace mx::symbol {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(MX_ERROR_VALUE, "[Program] " + message);
}

bool contains(const std::vector<uint32_t>& list, uint32_t value) noexcept {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

Program::Program(const Tables& tables, mx_context context, const std::string& name)
    : tables_(tables), context_(context),
      name_(tables.engine->intern(tables.engine->self, name.c_str())) {
  tables_.engine->retain(tables_.engine->self);
}

Program::~Program() {
  const mx_invoke_api* invoke = tables_.invoke;
  for (const Node& node : nodes_) invoke->call_release(invoke->self, node.call);
  tables_.engine->release(tables_.engine->self);
}

uint32_t Program::add_array(bool arena) {
  if (sealed_) refuse("is sealed");
  array_bytes_.push_back(0);
  arenas_.push_back(arena);
  return static_cast<uint32_t>(array_bytes_.size() - 1);
}

uint32_t Program::add_slot(Slot slot, size_t item_size) {
  if (sealed_) refuse("is sealed");
  if (slot.shape.size() > MX_MAX_NDIM) {
    refuse("expected at most " + std::to_string(MX_MAX_NDIM) + " axes, got " +
           std::to_string(slot.shape.size()));
  }
  slot.bytes = item_size;
  for (const int64_t extent : slot.shape) {
    if (extent < 0 || __builtin_mul_overflow(slot.bytes, static_cast<size_t>(extent), &slot.bytes)) {
      refuse("a value has a negative extent or more than 2^64 bytes");
    }
  }
  if (slot.array != kNoArray) {
    if (slot.array >= array_bytes_.size()) {
      refuse("there is no array " + std::to_string(slot.array));
    }
    size_t end = 0;
    if (__builtin_add_overflow(slot.offset, slot.bytes, &end)) refuse("an offset leaves 64 bits");
    array_bytes_[slot.array] = std::max(array_bytes_[slot.array], end);
  }
  slots_.push_back(std::move(slot));
  return static_cast<uint32_t>(slots_.size() - 1);
}

void Program::check_node(const Node& node) const {
  const std::string where = "node '" + node.name + "' ";
  for (const std::vector<uint32_t>* list : {&node.inputs, &node.outputs}) {
    for (const uint32_t slot : *list) {
      if (slot >= slots_.size()) refuse(where + "uses unknown value " + std::to_string(slot));
    }
  }
  for (const std::vector<uint32_t>* list : {&node.mutated, &node.unread}) {
    for (const uint32_t position : *list) {
      if (position >= node.inputs.size()) {
        refuse(where + "has no input " + std::to_string(position));
      }
    }
  }
  if (node.req.size() != node.outputs.size()) refuse(where + "needs a request per output");
  const auto nowhere = [this](uint32_t slot) {
    return slots_[slot].array == kNoArray && slots_[slot].bytes != 0;
  };
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.req[i] > MX_REQ_ADD) refuse(where + "has an unknown request");
    if (nowhere(node.outputs[i]) && node.req[i] != MX_REQ_NULL) {
      refuse(where + "writes a value without memory");
    }
  }
  for (uint32_t i = 0; i < node.inputs.size(); ++i) {
    if (nowhere(node.inputs[i]) && !contains(node.unread, i)) {
      refuse(where + "reads a value without memory");
    }
  }
}

void Program::add_node(Node node) {
  if (sealed_) refuse("is sealed");
  check_node(node);
  const mx_invoke_api* invoke = tables_.invoke;
  if (tables_.random == nullptr && invoke->call_random_blocks(invoke->self, node.call) != 0) {
    throw Error(MX_ERROR_UNSUPPORTED, "[Program] node '" + node.name +
                                          "' draws random numbers, but no plug-in offers a random "
                                          "resource for its device");
  }
  nodes_.push_back(std::move(node));
  invoke->call_retain(invoke->self, nodes_.back().call);
}

void Program::check_branches() const {
  uint32_t begin = 0;
  for (uint32_t i = 0; i < branches_.size(); ++i) {
    if (branches_[i].end <= begin) refuse("branches must follow each other");
    begin = branches_[i].end;
    for (const uint32_t other : branches_[i].after) {
      if (other >= i) refuse("branch " + std::to_string(i) + " waits for a later one");
    }
  }
  if (!branches_.empty() && begin != nodes_.size()) refuse("the branches leave nodes out");
}

void Program::seal(const std::vector<uint32_t>& ends, const std::vector<uint32_t>& limits,
                   std::vector<Branch> branches) {
  if (sealed_) refuse("is sealed");
  branches_ = std::move(branches);
  check_branches();
  uint32_t begin = 0, branch = 0;
  for (size_t k = 0; k < ends.size(); ++k) {
    const uint32_t end = ends[k];
    if (end < begin || end > nodes_.size()) refuse("parts must follow each other");
    make_part(begin, end, k < limits.size() ? limits[k] : 0, branch);
    begin = end;
  }
  if (begin != nodes_.size()) refuse("the parts leave nodes out");
  for (Segment& segment : segments_) {
    for (const std::vector<uint32_t>* list : {&segment.writes, &segment.shares, &segment.reads}) {
      segment.arrays.insert(segment.arrays.end(), list->begin(), list->end());
    }
  }
  describe_tensors();
  find_handed_over();
  sealed_ = true;
}

// Bindings begin with a copy, which takes less than describing every value again.
void Program::describe_tensors() {
  for (const Node& node : nodes_) {
    first_tensor_.push_back(tensors_.size());
    for (const std::vector<uint32_t>* list : {&node.inputs, &node.outputs}) {
      for (const uint32_t index : *list) {
        const Slot& slot = slots_[index];
        tensors_.push_back({nullptr, slot.shape.data(), slot.bytes, context_, slot.dtype,
                            static_cast<int32_t>(slot.shape.size()), 0});
      }
    }
  }
  first_tensor_.push_back(tensors_.size());
  windows_.resize(tensors_.size());
  for (const Segment& segment : segments_) find_windows(segment);
}

void Program::find_windows(const Segment& segment) {
  std::vector<uint32_t> position(array_bytes_.size(), kNoArray);
  for (uint32_t i = 0; i < segment.arrays.size(); ++i) position[segment.arrays[i]] = i;
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    size_t tensor = first_tensor_[i];
    for (const std::vector<uint32_t>* list : {&nodes_[i].inputs, &nodes_[i].outputs}) {
      for (const uint32_t index : *list) {
        const Slot& slot = slots_[index];
        const uint32_t array = slot.array == kNoArray ? kNoArray : position[slot.array];
        windows_[tensor++] = {array, slot.offset};
      }
    }
  }
}

void Program::find_handed_over() {
  for (uint32_t i = 0; i < arenas_.size(); ++i) {
    if (arenas_[i]) handed_over_.push_back(i);
  }
  for (const Segment& segment : segments_) {
    if (segment.prepared) handed_over_.insert(handed_over_.end(), segment.writes.begin(), segment.writes.end());
  }
}

// `branch` is the first that belongs to the part, and then the first of the next.
void Program::make_part(uint32_t begin, uint32_t end, uint32_t limit, uint32_t& branch) {
  Part part;
  part.begin = static_cast<uint32_t>(segments_.size());
  const uint32_t first = begin;
  if (branches_.empty()) {
    make_segments(begin, end, limit, kNoBranch);
  } else {
    for (; begin < end; begin = branches_[branch++].end) {
      if (branches_[branch].end > end) refuse("a branch reaches into the next part");
      make_segments(begin, branches_[branch].end, limit, branch);
    }
  }
  part.end = static_cast<uint32_t>(segments_.size());
  join_prepared(part);
  if (!branches_.empty()) order_random(part, first, end);
  parts_.push_back(part);
}

void Program::make_segments(uint32_t begin, uint32_t end, uint32_t limit, uint32_t branch) {
  const mx_invoke_api* invoke = tables_.invoke;
  Segment segment;
  for (uint32_t i = begin; i < end; ++i) {
    const bool python = invoke->call_is_python(invoke->self, nodes_[i].call) != 0;
    const bool prepared = nodes_[i].prepared;
    const bool full = limit != 0 && i - segment.begin >= limit;
    if (i == begin || full || python != segment.python || prepared != segment.prepared) {
      if (i != begin) finish_segment(std::move(segment));
      segment = Segment{};
      segment.begin = i;
      segment.branch = branch;
      segment.python = python;
      segment.prepared = prepared;
    }
    segment.end = i + 1;
    segment.microseconds += nodes_[i].microseconds;
    random_before_.push_back(segment.random_blocks);
    segment.random_blocks += invoke->call_random_blocks(invoke->self, nodes_[i].call);
  }
  if (begin != end) finish_segment(std::move(segment));
}

void Program::finish_segment(Segment segment) {
  std::vector<bool> read(array_bytes_.size(), false);
  std::vector<bool> written(array_bytes_.size(), false);
  const auto mark = [this](std::vector<bool>& table, uint32_t slot) {
    if (slots_[slot].array != kNoArray) table[slots_[slot].array] = true;
  };
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    const Node& node = nodes_[i];
    for (uint32_t k = 0; k < node.inputs.size(); ++k) {
      if (contains(node.mutated, k)) {
        mark(written, node.inputs[k]);
      } else if (!contains(node.unread, k)) {
        mark(read, node.inputs[k]);
      }
    }
    for (uint32_t k = 0; k < node.outputs.size(); ++k) {
      if (node.req[k] != MX_REQ_NULL) mark(written, node.outputs[k]);
    }
  }
  for (uint32_t array = 0; array < array_bytes_.size(); ++array) {
    if (!read[array] && !written[array]) continue;
    const bool shared = arenas_[array] && segment.branch != kNoBranch;
    (shared ? segment.shares : written[array] ? segment.writes : segment.reads).push_back(array);
  }
  segments_.push_back(std::move(segment));
}

void Program::order_random(Part& part, uint32_t begin, uint32_t end) {
  std::vector<uint32_t> nodes;
  for (uint32_t i = begin; i < end; ++i) nodes.push_back(i);
  std::sort(nodes.begin(), nodes.end(),
            [this](uint32_t a, uint32_t b) { return nodes_[a].order < nodes_[b].order; });
  for (const uint32_t i : nodes) {
    random_before_[i] = part.random_blocks;
    part.random_blocks += tables_.invoke->call_random_blocks(tables_.invoke->self, nodes_[i].call);
  }
}

// What prepared segments hand to each other lies in memory that others use later, so all of them
// look at everything that one of them reads.
void Program::join_prepared(Part& part) {
  part.prepared_end = part.begin;
  while (part.prepared_end < part.end && segments_[part.prepared_end].prepared) ++part.prepared_end;
  std::vector<uint32_t> reads, writes;
  const auto add = [](std::vector<uint32_t>& all, const std::vector<uint32_t>& some) {
    for (const uint32_t array : some) {
      if (!contains(all, array)) all.push_back(array);
    }
  };
  for (uint32_t i = part.begin; i < part.prepared_end; ++i) add(writes, segments_[i].writes);
  for (uint32_t i = part.begin; i < part.prepared_end; ++i) add(reads, segments_[i].reads);
  const auto is_written = [&](uint32_t array) { return contains(writes, array); };
  reads.erase(std::remove_if(reads.begin(), reads.end(), is_written), reads.end());
  for (uint32_t i = part.begin; i < part.prepared_end; ++i) {
    segments_[i].reads = reads;
    segments_[i].writes = writes;
  }
}

const Part& Program::part(uint32_t index) const {
  if (index >= parts_.size()) refuse("there is no part " + std::to_string(index));
  return parts_[index];
}

}  // namespace mx::symbol
