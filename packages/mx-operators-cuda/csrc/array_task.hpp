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

// Holds its arrays until it has run.
class ArrayTask {
 public:
  ArrayTask(const mx_invoke_api* invoke, std::vector<Use> uses);
  ArrayTask(const ArrayTask&) = delete;
  ArrayTask& operator=(const ArrayTask&) = delete;
  virtual ~ArrayTask();

  // Enqueues the work on the stream of `context`, whose GPU's context is not yet current.
  virtual void run(const mx_run_context& context) const = 0;
  // Whether it may take long: then it does not run on the thread that pushes it.
  virtual bool takes_long() const { return false; }

  // Where an array lies, and with `allocate`, which is for `run`, its memory.
  mx_tensor tensor(size_t i, bool allocate = false) const;
  // Those of the arrays that are written, or of the others; each once.
  std::vector<mx_variable*> variables(bool written) const;

  const mx_engine_api* engine = nullptr;  // set when it is pushed

 private:
  const mx_invoke_api* const invoke_;
  const std::vector<Use> uses_;
};

// Pushes a task to the lane of a GPU that computes; what goes wrong fails what it writes.  Threads: any, without the
// GIL.  Blocks: never.  Errors: the engine takes nothing any more; a naive engine throws the failure.
void push(const mx_engine_api* engine, std::unique_ptr<ArrayTask> task, const std::string& name, int32_t gpu,
          int32_t priority);

}  // namespace mx::cuda
