// SPDX-License-Identifier: Apache-2.0
//
// Running a sealed program.
#include "program.hpp"

namespace mx::symbol {

// One push of one segment.
struct Program::Job {
  std::shared_ptr<Program> program;
  uint32_t segment;
  uint64_t random_key = 0;
  uint64_t random_offset = 0;

  static mx_failure* run(void* argument, const mx_run_context* context) {
    const auto* job = static_cast<const Job*>(argument);
    return job->program->run_segment(*job, *context);
  }
  static void destroy(void* argument) { delete static_cast<Job*>(argument); }
};

void Program::push(uint32_t part, int32_t priority) {
  if (!sealed_ || part >= parts_.size()) {
    throw Error(MX_ERROR_VALUE, "[Program] there is no part " + std::to_string(part));
  }
  for (uint32_t i = parts_[part].begin; i < parts_[part].end; ++i) push_segment(i, priority);
}

void Program::push_segment(uint32_t index, int32_t priority) {
  const Segment& segment = segments_[index];
  if (segment.writes.empty()) return;  // nobody would see what it computes
  auto job = std::make_unique<Job>(Job{shared_from_this(), index});
  if (segment.random_blocks != 0) {
    tables_.random->reserve_random(tables_.random->self, context_, segment.random_blocks,
                                   &job->random_key, &job->random_offset);
  }
  mx_operation operation{};
  operation.size = sizeof operation;
  operation.flags = segment.python ? MX_PUSH_PYTHON : MX_PUSH_PARALLEL;
  operation.context = context_;
  operation.property = MX_FN_NORMAL;
  operation.priority = priority;
  operation.name = name_;
  operation.reads = segment.reads.data();
  operation.writes = segment.writes.data();
  operation.n_reads = static_cast<uint32_t>(segment.reads.size());
  operation.n_writes = static_cast<uint32_t>(segment.writes.size());
  operation.run = &Job::run;
  operation.argument = job.release();
  operation.destroy = &Job::destroy;
  mx_failure* failure = nullptr;
  mx_error error{};
  check(tables_.engine->push(tables_.engine->self, &operation, &failure, &error), error);
  if (failure != nullptr) throw FailureError{FailureRef(failure)};
}

// Writes the addresses of a segment's arrays into its tensors, where they have changed.
void Program::locate(Segment& segment) {
  bool moved = false;
  for (Segment::Memory& memory : segment.memory) {
    mx_tensor whole{};
    mx_error error{};
    check(tables_.invoke->array_tensor(tables_.invoke->self, arrays_[memory.array], 1, &whole,
                                       &error),
          error);
    moved = moved || whole.data != memory.address;
    memory.address = whole.data;
  }
  if (!moved) return;
  std::vector<void*> known(arrays_.size(), nullptr);
  for (const Segment::Memory& memory : segment.memory) known[memory.array] = memory.address;
  const auto address = [&](uint32_t index) -> void* {
    const Slot& slot = slots_[index];
    if (slot.array == kNoArray || known[slot.array] == nullptr) return nullptr;
    return static_cast<char*>(known[slot.array]) + slot.offset;
  };
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    const Node& node = nodes_[i];
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      steps_[i].inputs[k].data = address(node.inputs[k]);
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      steps_[i].outputs[k].data = address(node.outputs[k]);
    }
  }
}

mx_failure* Program::run_segment(const Job& job, const mx_run_context& context) {
  Segment& segment = segments_[job.segment];
  mx_failure* unplaced = failing([&] { locate(segment); });
  if (unplaced != nullptr) return unplaced;
  const mx_invoke_api* invoke = tables_.invoke;
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    const Node& node = nodes_[i];
    const Step& step = steps_[i];
    mx_failure* failure = invoke->run(
        invoke->self, node.call, &context, step.inputs.data(),
        static_cast<uint32_t>(step.inputs.size()), step.outputs.data(), node.req.data(),
        static_cast<uint32_t>(step.outputs.size()), node.scalars.data(),
        static_cast<uint32_t>(node.scalars.size()), node.is_train ? 1 : 0, job.random_key,
        job.random_offset + step.random_offset);
    if (failure != nullptr) return named(failure, node);
  }
  return nullptr;
}

// Says in a failure which node it came from.
mx_failure* Program::named(mx_failure* failure, const Node& node) const noexcept {
  const FailureRef original(failure);
  try {
    const mx_invoke_api* invoke = tables_.invoke;
    const std::string where =
        std::string(invoke->call_name(invoke->self, node.call)) + " '" + node.name + "'";
    if (failure->payload_kind == MX_PAYLOAD_NONE) {
      const std::string text = std::string(failure->message) + " (in node " + where + ")";
      return make_failure(failure->code, text.c_str());
    }
    // The exception travels as it is; the wait adds this as a note.
    if (failure->operator_name[0] == '\0') {
      std::snprintf(failure->operator_name, sizeof failure->operator_name, "%s", where.c_str());
    }
  } catch (const std::exception&) {
    // Out of memory: the failure goes on without the node's name.
  }
  return FailureRef(original).release();
}

}  // namespace mx::symbol
