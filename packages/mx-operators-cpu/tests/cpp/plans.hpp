// SPDX-License-Identifier: Apache-2.0
//
// What the tests of plans share: expressions by hand, tensors over vectors, runs with every request.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "mx_core/expression.h"
#include "mx_core/native_tests.hpp"
#include "common/plan.hpp"

using namespace mx::cpu;
using mx::PlanPtr;
using mx::item_size;
using mx::Shape;
using mx::Spec;

constexpr uint32_t kUnused = 0xffffffffu;

inline std::string expression(uint32_t n_inputs, std::vector<mx_instruction> steps,
                       std::vector<uint32_t> outputs) {
  const mx_expression_head head{MX_EXPRESSION_MAGIC, 1, 0, n_inputs, 0, 0,
                                static_cast<uint32_t>(steps.size()),
                                static_cast<uint32_t>(outputs.size()), 0};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes.append(reinterpret_cast<const char*>(steps.data()), steps.size() * sizeof steps[0]);
  bytes.append(reinterpret_cast<const char*>(outputs.data()), outputs.size() * 4);
  return bytes;
}

struct Released {
  void operator()(mx::Plan* plan) const { plan->release(plan); }
};
using Shared = std::unique_ptr<mx::Plan, Released>;
inline Shared shared(PlanPtr plan) { return Shared(plan.release()); }

template <class T>
mx_tensor tensor(std::vector<T>& data, int dtype) {
  static const int64_t none = 0;
  mx_tensor t{};
  t.data = data.data();
  t.shape = &none;
  t.bytes = data.size() * sizeof(T);
  t.dtype = dtype;
  return t;
}

inline int32_t run(const Shared& plan, const std::vector<mx_tensor>& inputs,
                   const std::vector<mx_tensor>& outputs, uint32_t threads = 2,
                   uint8_t request = MX_REQ_WRITE) {
  mx_kernel_context context{};
  context.size = sizeof context;
  context.threads = threads;
  const double scalars[] = {0.0, 1.0};
  context.scalars = scalars;
  context.n_scalars = 2;
  context.random_key = 7;
  std::vector<std::unique_ptr<char[]>> memory;  // of its own size, so that every overrun is seen
  std::vector<void*> scratch;
  for (uint32_t i = 0; i < plan->n_scratch; ++i) {
    memory.emplace_back(new char[plan->scratch_bytes[i] + 64]);
    scratch.push_back(reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.back().get()) + 63) / 64 * 64));
  }
  context.scratch = scratch.data();
  const std::vector<uint8_t> req(outputs.size(), request);
  if (const size_t bytes = mx_plan_staging(plan.get(), req.data(), static_cast<uint32_t>(req.size()))) {
    memory.emplace_back(new char[bytes + 64]);
    context.staging = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.back().get()) + 63) / 64 * 64);
  }
  mx_error error{};
  return plan->run(plan.get(), &context, inputs.data(), static_cast<uint32_t>(inputs.size()),
                   outputs.data(), req.data(), static_cast<uint32_t>(outputs.size()), &error);
}
