// SPDX-License-Identifier: Apache-2.0
//
// Loops over arrays as engine operations.  A long loop is cut into slices, which the engine's workers share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mx_core/engine.h"
#include "mx_core/failure.hpp"
#include "mx_core/invoke.h"

namespace mx::kv {

struct Tables {
  const mx_engine_api* engine = nullptr;
  const mx_invoke_api* invoke = nullptr;
};

// References to arrays.  Threads: any, without the GIL.
class Arrays {
 public:
  Arrays(const mx_invoke_api* invoke, const std::vector<mx_array*>& arrays);
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;
  ~Arrays();

  size_t size() const noexcept { return arrays_.size(); }
  // Where an array is and what it holds; the data only inside of an operation that has its variable.
  mx_tensor tensor(size_t i, bool allocate) const;
  mx_variable* variable(size_t i) const noexcept { return invoke_->array_variable(invoke_->self, arrays_[i]); }

 private:
  const mx_invoke_api* invoke_;
  std::vector<mx_array*> arrays_;
};

// The variables of arrays, each once, without those of `others`.
std::vector<mx_variable*> variables(const Arrays& arrays, const std::vector<mx_variable*>& others);

// What an operation does.
class Loop {
 public:
  virtual ~Loop() = default;
  // Finds the memory of the arrays; false if the loop must not be cut.  Called once, before all else, by the operation.
  virtual bool begin() = 0;
  // Elements [begin, end).  Threads: disjoint ranges at the same time.
  virtual void run(int64_t begin, int64_t end) = 0;
  // After all elements.
  virtual void finish() {}
};

struct Extent {
  int64_t elements;
  int64_t bytes;  // that are read and written in all
};

// Pushes a loop that reads and writes arrays; one that is written may be read, too.  Slices begin at multiples of 64
// elements.  Asynchronous; a failure is that of what it writes.
// Errors: the engine takes nothing any more; a naive engine throws the failure.
void push(const Tables& tables, std::shared_ptr<Loop> loop, const Arrays& reads, const Arrays& writes, Extent extent,
          const char* name, int32_t priority);

}  // namespace mx::kv
