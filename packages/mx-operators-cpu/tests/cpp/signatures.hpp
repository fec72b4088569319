// SPDX-License-Identifier: Apache-2.0
//
// Plans of float32 or bfloat16 tensors, run over arrays of their signature with every request.
#pragma once

#include <cmath>

#include "any_request.hpp"
#include "convolution/onednn_windows.hpp"
#include "mx_core/half.hpp"

using Floats = std::vector<float>;
using mx::Signature;

constexpr int32_t kTypes[] = {MX_FLOAT32, MX_BFLOAT16};

// Those in which the library computes on this processor.
inline std::vector<int32_t> primitive_types() {
  std::vector<int32_t> types = {MX_FLOAT32};
  if (has_bfloat16_kernels()) types.push_back(MX_BFLOAT16);
  return types;
}

// The arrays of tensors, each as floats and as the bytes of its type.
class Arrays {
 public:
  Arrays(const std::vector<Spec>& specs, const std::vector<Floats>& values) : specs_(specs) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto n = static_cast<size_t>(specs[i].size());
      CHECK(values.empty() || values[i].size() == n);
      bytes_.emplace_back(specs[i].bytes());
      for (size_t j = 0; j < n; ++j) set(i, j, values.empty() ? 1.0f : values[i][j]);
    }
  }
  std::vector<mx_tensor> tensors() {
    std::vector<mx_tensor> made;
    for (size_t i = 0; i < specs_.size(); ++i) made.push_back(tensor(bytes_[i], specs_[i].dtype));
    return made;
  }
  std::vector<Floats> values() const {
    std::vector<Floats> all;
    for (size_t i = 0; i < specs_.size(); ++i) {
      all.emplace_back(static_cast<size_t>(specs_[i].size()));
      for (size_t j = 0; j < all.back().size(); ++j) all.back()[j] = get(i, j);
    }
    return all;
  }

 private:
  bool wide(size_t i) const { return specs_[i].dtype == MX_FLOAT32; }
  float get(size_t i, size_t j) const {
    if (wide(i)) return reinterpret_cast<const float*>(bytes_[i].data())[j];
    return static_cast<float>(reinterpret_cast<const mx::BFloat16*>(bytes_[i].data())[j]);
  }
  void set(size_t i, size_t j, float value) {
    if (wide(i)) {
      reinterpret_cast<float*>(bytes_[i].data())[j] = value;
    } else {
      reinterpret_cast<mx::BFloat16*>(bytes_[i].data())[j] = mx::BFloat16(value);
    }
  }

  std::vector<Spec> specs_;
  std::vector<std::vector<char>> bytes_;
};

// Inputs as their types hold them, numbers in [-1, 1) of their own for each.
inline std::vector<Floats> drawn(const Signature& s) {
  std::vector<Floats> made;
  double low = -1;
  for (const Spec& spec : s.inputs) made.push_back(numbers<float>(spec.size(), low, low + 2)), low += 0.01;
  return Arrays(s.inputs, made).values();
}

inline std::vector<Floats> computed(const Shared& plan, const Signature& s, const std::vector<Floats>& inputs,
                                    uint8_t request = MX_REQ_WRITE, uint32_t threads = 2) {
  Arrays given(s.inputs, inputs), made(s.outputs, {});
  CHECK(run(plan, given.tensors(), made.tensors(), threads, request) == MX_OK);
  return made.values();
}

inline bool finite(const Floats& values) {
  for (float x : values)
    if (!std::isfinite(x)) return false;
  return true;
}

inline bool close(const Floats& got, const Floats& want, double tolerance, double more = 0) {
  double largest = 1;
  for (float x : want) largest = std::fmax(largest, std::fabs(static_cast<double>(x)));
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::fabs(got[i] - (want[i] + more)) <= tolerance * largest)) return false;
  return got.size() == want.size();
}

// Outputs start at 1: written they are `want`, added to they are 1 more, unwanted they stay.  On one thread and on two.
inline void verify(const Shared& plan, const Signature& s, const std::vector<Floats>& inputs,
                   const std::vector<Floats>& want, double tolerance) {
  for (uint32_t threads : {1u, 2u}) {
    const auto written = computed(plan, s, inputs, MX_REQ_WRITE, threads);
    const auto added = computed(plan, s, inputs, MX_REQ_ADD, threads);
    const auto left = computed(plan, s, inputs, MX_REQ_NULL, threads);
    for (size_t i = 0; i < want.size(); ++i) {
      CHECK(close(written[i], want[i], tolerance));
      CHECK(close(added[i], want[i], tolerance, 1));
      for (float x : left[i]) CHECK(x == 1);
    }
  }
}
