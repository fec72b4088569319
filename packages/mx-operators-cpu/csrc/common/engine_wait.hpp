// SPDX-License-Identifier: Apache-2.0
//
// Waits of kernels that run on threads of an engine.
#pragma once

#include <functional>

#include "mx_core/engine.h"

namespace mx::cpu {

// An engine, as long as kernels may wait on its threads. Threads: any.
class EngineWait {
 public:
  // nullptr: none, no wait is possible.
  explicit EngineWait(const mx_engine_api* engine) noexcept;
  ~EngineWait();
  EngineWait(const EngineWait&) = delete;
  EngineWait& operator=(const EngineWait&) = delete;

  // Until `over` says so, which is asked four times a millisecond. Meanwhile another thread of the engine takes the
  // place of this one. False where the engine cannot; then `over` may not have come.
  //
  // Blocks: yes. The caller must not hold the GIL.
  bool until(mx_context context, const std::function<bool()>& over) const noexcept;

 private:
  const mx_engine_api* const engine_;
};

}  // namespace mx::cpu
