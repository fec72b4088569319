// SPDX-License-Identifier: Apache-2.0
//
// What small programs are made of.
#pragma once

#include "fakes.hpp"
#include "mx_core/failure.hpp"
#include "program.hpp"

using mx::symbol::Node;
using mx::symbol::Slot;

constexpr mx_context kHost{MX_CPU, 0};

inline Slot window(uint32_t array, size_t offset = 0, int64_t n = 1) {
  Slot slot;
  slot.array = array;
  slot.offset = offset;
  slot.shape = {n};
  return slot;
}

inline Node node(const char* name, mx_call& call, std::vector<uint32_t> inputs,
          std::vector<uint32_t> outputs) {
  Node made;
  made.name = name;
  made.call = &call;
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  made.req.assign(made.outputs.size(), MX_REQ_WRITE);
  return made;
}

inline float* floats(const mx_tensor& tensor) { return static_cast<float*>(tensor.data); }

inline Body plus(float amount) {
  return [amount](const mx_tensor* in, const mx_tensor* out, const uint8_t*, uint64_t) {
    floats(out[0])[0] = floats(in[0])[0] + amount;
    return static_cast<mx_failure*>(nullptr);
  };
}
