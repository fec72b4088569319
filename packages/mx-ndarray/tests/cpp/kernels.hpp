// SPDX-License-Identifier: Apache-2.0
//
// Calls with small native kernels on float32.
#pragma once

#include "call.hpp"
#include "fakes.hpp"

namespace kernels {

using mx::nd::Array;
using mx::nd::Call;
using mx::nd::Ref;
using mx::nd::Shape;

using Run = int32_t (*)(const mx_plan*, const mx_kernel_context*, const mx_tensor*, uint32_t,
                        const mx_tensor*, const uint8_t*, uint32_t, mx_error*);

inline mx_plan* plan(Run run, uint64_t random_blocks = 0, const size_t* scratch = nullptr) {
  auto* made = new mx_plan{};
  made->head = {sizeof(mx_plan), MX_KERNEL_MAJOR, MX_KERNEL_MINOR};
  made->random_blocks = random_blocks;
  made->n_scratch = scratch == nullptr ? 0 : 1;
  made->scratch_bytes = scratch;
  made->run = run;
  made->retain = [](mx_plan*) {};
  made->release = [](mx_plan* self) { delete self; };
  return made;
}

inline Ref<Call> call(Run run, int n_inputs, int64_t size, int n_outputs = 1) {
  Ref<Call> made = Ref<Call>::adopt(new Call);
  made->name = "test";
  for (int i = 0; i < n_inputs; ++i) made->inputs.push_back({Shape(1, &size), MX_FLOAT32, 0, 0});
  for (int i = 0; i < n_outputs; ++i) made->outputs.push_back({Shape(1, &size), MX_FLOAT32, 0, 0});
  made->visible_outputs = static_cast<uint32_t>(n_outputs);
  made->plan = plan(run);
  made->seal();
  return made;
}

inline Ref<Array> array(std::vector<float> values) {
  const auto size = static_cast<int64_t>(values.size());
  Ref<Array> made = Array::create({MX_CPU, 0}, MX_FLOAT32, Shape(1, &size));
  if (size != 0) std::memcpy(made->allocate(), values.data(), values.size() * sizeof(float));
  return made;
}

inline std::vector<float> values(Array& array) {
  const auto* data = static_cast<const float*>(array.address());
  return {data, data + array.size()};
}

inline void store(const mx_tensor& out, int64_t i, float value, uint8_t req) {
  auto* data = static_cast<float*>(out.data);
  data[i] = req == MX_REQ_ADD ? data[i] + value : value;
}

// outputs[0] = inputs[0] + inputs[1]
inline int32_t add(const mx_plan*, const mx_kernel_context*, const mx_tensor* in, uint32_t,
                   const mx_tensor* out, const uint8_t* req, uint32_t, mx_error*) {
  for (int64_t i = 0; i < out->shape[0]; ++i) {
    store(*out, i, static_cast<float*>(in[0].data)[i] + static_cast<float*>(in[1].data)[i], *req);
  }
  return MX_OK;
}

// outputs[0] = 0, 1, 2, ...; reads nothing
inline int32_t count(const mx_plan*, const mx_kernel_context*, const mx_tensor*, uint32_t,
                     const mx_tensor* out, const uint8_t* req, uint32_t, mx_error*) {
  for (int64_t i = 0; i < out->shape[0]; ++i) store(*out, i, static_cast<float>(i), *req);
  return MX_OK;
}

// outputs[0] = inputs[0] · inputs[1]
inline int32_t multiply(const mx_plan*, const mx_kernel_context*, const mx_tensor* in, uint32_t,
                        const mx_tensor* out, const uint8_t* req, uint32_t, mx_error*) {
  for (int64_t i = 0; i < out->shape[0]; ++i) {
    store(*out, i, static_cast<float*>(in[0].data)[i] * static_cast<float*>(in[1].data)[i], *req);
  }
  return MX_OK;
}

// Reverses, reading while writing: wrong when both are the same memory.
inline int32_t reverse(const mx_plan*, const mx_kernel_context*, const mx_tensor* in, uint32_t,
                       const mx_tensor* out, const uint8_t* req, uint32_t, mx_error*) {
  const int64_t n = out->shape[0];
  for (int64_t i = 0; i < n; ++i) {
    store(*out, i, static_cast<float*>(in->data)[n - 1 - i], *req);
  }
  return MX_OK;
}

}  // namespace kernels
