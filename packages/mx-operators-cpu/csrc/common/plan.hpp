// SPDX-License-Identifier: Apache-2.0
//
// What every plan of this package shares: how many threads it is for, and its team when it runs.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "common/parallel.hpp"
#include "common/scratch.hpp"
#include "mx_core/plan.hpp"

namespace mx::cpu {

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

// A piece of scratch memory for each thread of a team.
struct PerThread {
  Section first;
  size_t step = 0;  // bytes

  template <class T = char>
  T* of(const Call& call, int thread) const {
    return reinterpret_cast<T*>(call.scratch(first) + step * static_cast<size_t>(thread));
  }
  Arena arena(const Call& call, int thread) const { return {of(call, thread), step}; }
};

// A prepared kernel.  Immutable once made: any number of threads may run it.
class Plan : public mx::Plan {
 protected:
  Plan(Signature signature, const Cost& cost);
  // On several threads if inputs and outputs are more than kParallelBytes.
  Plan(std::vector<Spec> inputs, std::vector<Spec> outputs, uint32_t n_scalars = 0);

  // The most threads that a run uses.
  int threads() const { return threads_; }
  // MX_PLAN_*; to be called from the constructor.
  void set_flags(uint32_t wanted);
  // On several threads.  To be called from the constructor, before scratch per thread is reserved.
  void set_parallel();

  // Scratch memory of every thread of the team; to be called once `threads()` is settled.
  PerThread add_thread_scratch(size_t bytes) {
    const size_t step = aligned(bytes);
    return {add_scratch(step * static_cast<size_t>(threads_)), step};
  }

  // Runs on the calling thread with its team set.
  void enter(const Call& call) const final;
  void add(const Spec& spec, void* target, const void* source) const final;

  // References: kernels read them more often than `signature_`.
  const std::vector<Spec>& inputs_ = signature_.inputs;
  const std::vector<Spec>& outputs_ = signature_.outputs;

 private:
  int threads_ = 1;
};

// Total bytes of inputs and outputs above which plans use several threads.
constexpr size_t kParallelBytes = size_t{512} << 10;

// Signals that there is no kernel for a signature; the next candidate should be asked.
struct Unsupported {};

// All arguments once through memory.
Cost bandwidth_cost(const Signature& signature);

// The signature, if it has that many inputs and outputs; else throws Unsupported.
const Signature& counted(const Signature& signature, size_t inputs, size_t outputs);
// Throws Unsupported for fewer or more tensors than a kernel knows.
void require_counts(const Signature& signature, size_t least_inputs, size_t most_inputs, size_t least_outputs,
                    size_t most_outputs);
// Throws Unsupported unless the tensors have these numbers of elements: a kernel reads and writes no further.
void require_sizes(const std::vector<Spec>& specs, std::initializer_list<int64_t> sizes);
inline void require_size(const Spec& spec, int64_t size) {
  if (spec.size() != size) throw Unsupported{};
}
// For kernels that compute in float32 alone.
void require_float(const Signature& signature);

}  // namespace mx::cpu
