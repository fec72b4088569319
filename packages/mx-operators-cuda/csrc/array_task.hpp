// SPDX-License-Identifier: Apache-2.0
//
// Work on arrays as an operation of the engine, ordered by their variables.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mx_core/engine.h"
#include "mx_core/invoke.h"

namespace mx::cuda {

// An array of an operation, and whether it is written, or only read.
struct Use {
  mx_array* array;
  bool written;
};

// Where an array lies, and with `allocate`, which is for the task's `run`, its memory.
mx_tensor tensor_of(const mx_invoke_api* invoke, mx_array* array, bool allocate);
// The variables of arrays in order, each once.
std::vector<mx_variable*> variables_of(const mx_invoke_api* invoke, const std::vector<mx_array*>& arrays);

// Holds its arrays until it has run.
class ArrayTask {
 public:
  // `also_written`: variables, as `variables_of` gives them, of arrays that somebody else holds.
  ArrayTask(const mx_invoke_api* invoke, std::vector<Use> uses, std::vector<mx_variable*> also_written = {});
  ArrayTask(const ArrayTask&) = delete;
  ArrayTask& operator=(const ArrayTask&) = delete;
  virtual ~ArrayTask();

  // Enqueues the work on the stream of `context`, whose GPU's context is not yet current.
  virtual void run(const mx_run_context& context) const = 0;
  // Whether it may take long: then it does not run on the thread that pushes it.
  virtual bool takes_long() const { return false; }

  mx_tensor tensor(size_t i, bool allocate = false) const { return tensor_of(invoke_, uses_[i].array, allocate); }
  // The variables of the arrays: those that are written, and the others; in order, each once.
  struct Variables {
    std::vector<mx_variable*> read, written;
  };
  Variables variables() const;

  const mx_engine_api* engine = nullptr;  // set when it is pushed

 private:
  const mx_invoke_api* const invoke_;
  const std::vector<Use> uses_;
  const std::vector<mx_variable*> also_written_;
};

// Pushes a task to the lane of a GPU that computes; what goes wrong fails what it writes.  Threads: any, without the
// GIL.  Blocks: never.  Errors: the engine takes nothing any more; a naive engine throws the failure.
void push(const mx_engine_api* engine, std::unique_ptr<ArrayTask> task, const std::string& name, int32_t gpu,
          int32_t priority);

}  // namespace mx::cuda
