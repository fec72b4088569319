// SPDX-License-Identifier: Apache-2.0
#include "array_task.hpp"

#include <algorithm>
#include <utility>

#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

void check(int32_t status, const mx_error& error) {
  if (status != MX_OK) throw Error(static_cast<mx_status>(status), said(status, error.message));
}

mx_failure* run(void* self, const mx_run_context* context) {
  return failing([&] { static_cast<const ArrayTask*>(self)->run(*context); });
}

bool in(const std::vector<mx_variable*>& list, mx_variable* one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

}  // namespace

ArrayTask::ArrayTask(const mx_invoke_api* invoke, std::vector<Use> uses) : invoke_(invoke), uses_(std::move(uses)) {
  for (const Use& use : uses_) invoke_->array_retain(invoke_->self, use.array);
}

ArrayTask::~ArrayTask() {
  for (const Use& use : uses_) invoke_->array_release(invoke_->self, use.array);
}

mx_tensor ArrayTask::tensor(size_t i, bool allocate) const {
  mx_tensor tensor{};
  mx_error error{};
  check(invoke_->array_tensor(invoke_->self, uses_[i].array, allocate ? 1 : 0, &tensor, &error), error);
  return tensor;
}

std::vector<mx_variable*> ArrayTask::variables(bool written) const {
  const std::vector<mx_variable*> others = written ? std::vector<mx_variable*>{} : variables(true);
  std::vector<mx_variable*> found;
  for (const Use& use : uses_) {
    if (use.written != written) continue;
    mx_variable* variable = invoke_->array_variable(invoke_->self, use.array);
    if (!in(found, variable) && !in(others, variable)) found.push_back(variable);
  }
  return found;
}

void push(const mx_engine_api* engine, std::unique_ptr<ArrayTask> task, const std::string& name, int32_t gpu,
          int32_t priority) {
  const std::vector<mx_variable*> reads = task->variables(false), writes = task->variables(true);
  mx_operation operation{};
  operation.size = sizeof operation;
  operation.context = {MX_GPU, gpu};
  operation.priority = priority;
  operation.name = engine->intern(engine->self, name.c_str());
  operation.reads = reads.data();
  operation.writes = writes.data();
  operation.n_reads = static_cast<uint32_t>(reads.size());
  operation.n_writes = static_cast<uint32_t>(writes.size());
  task->engine = engine;
  if (task->takes_long()) {
    operation.run_async = [](void* self, const mx_run_context* context, mx_completion* done) {
      const mx_engine_api* api = static_cast<const ArrayTask*>(self)->engine;
      api->complete(api->self, done, run(self, context));
    };
  } else {
    operation.flags = MX_PUSH_INLINE;
    operation.run = &run;
  }
  operation.argument = task.release();
  operation.destroy = [](void* self) { delete static_cast<ArrayTask*>(self); };
  mx_failure* failure = nullptr;
  mx_error error{};
  check(engine->push(engine->self, &operation, &failure, &error), error);
  if (failure != nullptr) throw FailureError{FailureRef(failure)};
}

}  // namespace mx::cuda
