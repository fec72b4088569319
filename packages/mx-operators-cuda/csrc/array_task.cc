// SPDX-License-Identifier: Apache-2.0
#include "array_task.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
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

using List = std::vector<mx_variable*>;

// In order, each once.
void order(List& list) {
  std::sort(list.begin(), list.end(), std::less<>());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

mx_tensor tensor_of(const mx_invoke_api* invoke, mx_array* array, bool allocate) {
  mx_tensor tensor{};
  mx_error error{};
  check(invoke->array_tensor(invoke->self, array, allocate ? 1 : 0, &tensor, &error), error);
  return tensor;
}

std::vector<mx_variable*> variables_of(const mx_invoke_api* invoke, const std::vector<mx_array*>& arrays) {
  List found;
  found.reserve(arrays.size());
  for (mx_array* array : arrays) found.push_back(invoke->array_variable(invoke->self, array));
  order(found);
  return found;
}

ArrayTask::ArrayTask(const mx_invoke_api* invoke, std::vector<Use> uses, std::vector<mx_variable*> also_written)
    : invoke_(invoke), uses_(std::move(uses)), also_written_(std::move(also_written)) {
  for (const Use& use : uses_) invoke_->array_retain(invoke_->self, use.array);
}

ArrayTask::~ArrayTask() {
  for (const Use& use : uses_) invoke_->array_release(invoke_->self, use.array);
}

ArrayTask::Variables ArrayTask::variables() const {
  Variables found;
  List read, written = also_written_;
  for (const Use& use : uses_) {
    (use.written ? written : read).push_back(invoke_->array_variable(invoke_->self, use.array));
  }
  order(read);
  if (written.size() > also_written_.size()) order(written);
  std::set_difference(read.begin(), read.end(), written.begin(), written.end(), std::back_inserter(found.read),
                      std::less<>());
  found.written = std::move(written);
  return found;
}

void push(const mx_engine_api* engine, std::unique_ptr<ArrayTask> task, const std::string& name, int32_t gpu,
          int32_t priority) {
  const auto [reads, writes] = task->variables();
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
