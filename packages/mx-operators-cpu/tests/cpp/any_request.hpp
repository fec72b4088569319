// SPDX-License-Identifier: Apache-2.0
//
// Arrays of numbers, and plans run over them with every request.
#pragma once

#include "plans.hpp"

constexpr uint8_t kRequests[] = {MX_REQ_WRITE, MX_REQ_ADD, MX_REQ_NULL};

template <class T>
std::vector<T> numbers(int64_t n, double low = -1, double high = 1) {
  std::vector<T> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<T>(low + (high - low) * static_cast<double>(i * 7919 % 1009) / 1009);
  return x;
}

// Runs a plan of float32 arrays, or of float64 ones, with every request.
template <class T>
int32_t all_requests(const Shared& plan, std::vector<std::vector<T>>& inputs, const std::vector<int64_t>& results) {
  const int dtype = sizeof(T) == 4 ? MX_FLOAT32 : MX_FLOAT64;
  int32_t status = MX_OK;
  for (uint8_t request : kRequests) {
    std::vector<mx_tensor> given, made;
    std::vector<std::vector<T>> outputs;
    for (auto& input : inputs) given.push_back(tensor(input, dtype));
    for (int64_t n : results) outputs.emplace_back(static_cast<size_t>(n));
    for (auto& output : outputs) made.push_back(tensor(output, dtype));
    const int32_t one = run(plan, given, made, 2, request);
    if (one != MX_OK) status = one;
  }
  return status;
}
