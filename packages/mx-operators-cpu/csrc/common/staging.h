// SPDX-License-Identifier: Apache-2.0
//
// Memory that stands in for outputs that may not be written: those to be added to, and unwanted
// ones that are computed all the same.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>

#include "onednn/primitive_plan.h"

namespace mx::onednn {

using OutputMask = uint32_t;  // bit i: output i

constexpr size_t kMaxOutputs = 8;
constexpr size_t kAlignment = 64;

inline size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Substitutes {
 public:
  // `computed`: the outputs that are written whether wanted or not.
  Substitutes(const Signature& signature, const Call& call, OutputMask computed) : signature_(signature), call_(call) {
    for (size_t i = 0; i < signature.outputs.size(); ++i) {
      if (call.wanted(i) ? !call.adds(i) : (computed >> i & 1u) == 0) continue;
      memory_[i].reset(std::aligned_alloc(kAlignment, aligned(signature.outputs[i].bytes())));
      if (memory_[i] == nullptr) throw std::bad_alloc();
    }
  }
  // Where output i is written; the caller's memory where nothing stands in for it.
  void* of(size_t output) const {
    return memory_[output] != nullptr ? memory_[output].get() : call_.outputs[output].data;
  }
  // Adds what was computed to the outputs that are added to.
  void deliver() const {
    for (size_t i = 0; i < signature_.outputs.size(); ++i) {
      const Spec& spec = signature_.outputs[i];
      if (call_.adds(i))
        accumulate(spec.type, call_.outputs[i].data, memory_[i].get(), static_cast<size_t>(spec.size()));
    }
  }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  const Signature& signature_;
  const Call& call_;
  std::unique_ptr<void, Free> memory_[kMaxOutputs];
};

}  // namespace mx::onednn
