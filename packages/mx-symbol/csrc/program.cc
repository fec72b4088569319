// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <algorithm>

namespace mx::symbol {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(MX_ERROR_VALUE, message); }

template <class T>
void add_once(std::vector<T>& list, T value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
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
  for (mx_array* array : arrays_) invoke->array_release(invoke->self, array);
  tables_.engine->release(tables_.engine->self);
}

uint32_t Program::add_array(mx_array* array) {
  if (sealed_) refuse("[Program] is sealed");
  arrays_.push_back(array);
  tables_.invoke->array_retain(tables_.invoke->self, array);
  return static_cast<uint32_t>(arrays_.size() - 1);
}

uint32_t Program::add_slot(Slot slot, size_t item_size) {
  if (sealed_) refuse("[Program] is sealed");
  if (slot.shape.size() > MX_MAX_NDIM) {
    refuse("[Program] expected at most " + std::to_string(MX_MAX_NDIM) + " axes, got " +
           std::to_string(slot.shape.size()));
  }
  slot.bytes = item_size;
  for (const int64_t extent : slot.shape) {
    if (extent < 0 || __builtin_mul_overflow(slot.bytes, static_cast<size_t>(extent), &slot.bytes)) {
      refuse("[Program] a value has no size or one beyond 64 bits");
    }
  }
  if (slot.array != kNoArray) {
    if (slot.array >= arrays_.size()) refuse("[Program] there is no such array");
    mx_tensor whole{};
    mx_error error{};
    check(tables_.invoke->array_tensor(tables_.invoke->self, arrays_[slot.array], 0, &whole, &error),
          error);
    if (slot.offset > whole.bytes || slot.bytes > whole.bytes - slot.offset) {
      refuse("[Program] a value of " + std::to_string(slot.bytes) + " bytes at " +
             std::to_string(slot.offset) + " leaves its array of " + std::to_string(whole.bytes));
    }
  }
  slots_.push_back(std::move(slot));
  return static_cast<uint32_t>(slots_.size() - 1);
}

void Program::add_node(Node node) {
  if (sealed_) refuse("[Program] is sealed");
  for (const std::vector<uint32_t>* list : {&node.inputs, &node.outputs}) {
    for (const uint32_t slot : *list) {
      if (slot >= slots_.size()) refuse("[Program] node '" + node.name + "' uses an unknown value");
    }
  }
  for (const std::vector<uint32_t>* list : {&node.mutated, &node.unread}) {
    for (const uint32_t position : *list) {
      if (position >= node.inputs.size()) {
        refuse("[Program] node '" + node.name + "' has no input " + std::to_string(position));
      }
    }
  }
  if (node.req.size() != node.outputs.size()) {
    refuse("[Program] node '" + node.name + "' needs a request per output");
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (slots_[node.outputs[i]].array == kNoArray && node.req[i] != MX_REQ_NULL) {
      refuse("[Program] node '" + node.name + "' writes a value without memory");
    }
  }
  for (uint32_t i = 0; i < node.inputs.size(); ++i) {
    if (slots_[node.inputs[i]].array == kNoArray && !contains(node.unread, i)) {
      refuse("[Program] node '" + node.name + "' reads a value without memory");
    }
  }
  const mx_invoke_api* invoke = tables_.invoke;
  if (tables_.random == nullptr && invoke->call_random_blocks(invoke->self, node.call) != 0) {
    throw Error(MX_ERROR_UNSUPPORTED,
                "[Program] node '" + node.name + "' draws random numbers, but the device has no "
                "random resource");
  }
  invoke->call_retain(invoke->self, node.call);
  nodes_.push_back(std::move(node));
}

mx_tensor Program::describe(uint32_t index) const {
  const Slot& slot = slots_[index];
  return {nullptr, slot.shape.data(), slot.bytes, context_, slot.dtype,
          static_cast<int32_t>(slot.shape.size()), 0};
}

void Program::make_step(const Node& node) {
  Step step;
  for (const uint32_t slot : node.inputs) step.inputs.push_back(describe(slot));
  for (const uint32_t slot : node.outputs) step.outputs.push_back(describe(slot));
  steps_.push_back(std::move(step));
}

void Program::seal(const std::vector<uint32_t>& ends) {
  if (sealed_) refuse("[Program] is sealed");
  for (const Node& node : nodes_) make_step(node);
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    if (end < begin || end > nodes_.size()) refuse("[Program] parts must follow each other");
    const auto first = static_cast<uint32_t>(segments_.size());
    make_segments(begin, end);
    parts_.push_back({first, static_cast<uint32_t>(segments_.size())});
    begin = end;
  }
  if (begin != nodes_.size()) refuse("[Program] the parts leave nodes out");
  sealed_ = true;
}

void Program::make_segments(uint32_t begin, uint32_t end) {
  const mx_invoke_api* invoke = tables_.invoke;
  Segment segment;
  for (uint32_t i = begin; i < end; ++i) {
    const bool python = invoke->call_is_python(invoke->self, nodes_[i].call) != 0;
    if (i == begin || python != segment.python) {
      if (i != begin) finish_segment(std::move(segment));
      segment = Segment{};
      segment.begin = i;
      segment.python = python;
    }
    segment.end = i + 1;
    steps_[i].random_offset = segment.random_blocks;
    segment.random_blocks += invoke->call_random_blocks(invoke->self, nodes_[i].call);
  }
  if (begin != end) finish_segment(std::move(segment));
}

void Program::finish_segment(Segment segment) {
  const mx_invoke_api* invoke = tables_.invoke;
  std::vector<uint32_t> read;
  std::vector<uint32_t> written;
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    const Node& node = nodes_[i];
    for (uint32_t k = 0; k < node.inputs.size(); ++k) {
      const uint32_t array = slots_[node.inputs[k]].array;
      if (contains(node.mutated, k)) {
        add_once(written, array);
      } else if (!contains(node.unread, k)) {
        add_once(read, array);
      }
    }
    for (uint32_t k = 0; k < node.outputs.size(); ++k) {
      if (node.req[k] != MX_REQ_NULL) add_once(written, slots_[node.outputs[k]].array);
    }
  }
  // Arrays may share a variable (views of one chunk), and a variable is listed once.
  for (const uint32_t array : written) {
    add_once(segment.writes, invoke->array_variable(invoke->self, arrays_[array]));
    segment.memory.push_back({array, nullptr});
  }
  for (const uint32_t array : read) {
    mx_variable* variable = invoke->array_variable(invoke->self, arrays_[array]);
    if (std::find(segment.writes.begin(), segment.writes.end(), variable) == segment.writes.end()) {
      add_once(segment.reads, variable);
    }
    if (!contains(written, array)) segment.memory.push_back({array, nullptr});
  }
  segments_.push_back(std::move(segment));
}

uint32_t Program::segments(uint32_t part) const {
  if (part >= parts_.size()) refuse("[Program] there is no part " + std::to_string(part));
  return parts_[part].end - parts_[part].begin;
}

}  // namespace mx::symbol
