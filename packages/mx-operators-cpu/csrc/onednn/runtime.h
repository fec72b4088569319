// SPDX-License-Identifier: Apache-2.0
//
// What all kernels of this folder share at run time: the oneDNN engine, and how many OpenMP threads a
// call may use.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "oneapi/dnnl/dnnl.hpp"
#include "common/parallel.h"

namespace mx::onednn {

// The process's CPU engine; lives until the process ends, as primitives may outlive static destruction.
const dnnl::engine& cpu_engine();

// Sets the calling thread's OpenMP team size for a scope.  oneDNN reads it when a primitive is
// made (blocking, scratchpads) and when one runs.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(omp_get_max_threads()), now_(std::max(1, threads)) {
    if (now_ != before_) omp_set_num_threads(now_);
  }
  ~ThreadScope() {
    if (now_ != before_) omp_set_num_threads(before_);
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_, now_;
};

// Runs `body` where its parallel regions have a team.  OpenMP keeps a team per thread; a forked
// child's first thread has inherited one whose other members do not exist, and would wait for them
// for ever: there `body` runs on a new thread.
void with_team(const std::function<void()>& body);

// What one run costs, roughly: decides whether a plan is worth a team of threads at all.
struct Cost {
  double flops = 0;
  double bytes = 0;
  // Microseconds of one core at 32 flop and 8 bytes per nanosecond.
  double microseconds() const { return flops / 32e3 + bytes / 8e3; }
  // Waking a team costs a few microseconds.
  bool parallel() const { return microseconds() > 20; }
  bool heavy() const { return microseconds() > 50; }
};

}  // namespace mx::onednn
