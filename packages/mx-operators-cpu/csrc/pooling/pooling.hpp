// SPDX-License-Identifier: Apache-2.0
//
// Pooling over windows and over whole images, and its gradient.
// They throw Unsupported (or dnnl::error) when another candidate should be asked.
#pragma once

#include "common/window.hpp"
#include "common/plan.hpp"

namespace mx::cpu {

enum class PoolType { max, avg, sum, lp };

struct PoolOptions {
  Window window;
  PoolType type = PoolType::max;
  bool count_include_pad = true;
  int p = 2;
  bool channels_last = false;  // (batch, *spatial, channels) instead of (batch, channels, *spatial)
};
// data -> output; out_grad, data, output -> data_grad.
PlanPtr pooling(const Signature& signature, const PoolOptions& options);
PlanPtr pooling_backward(const Signature& signature, const PoolOptions& options);

}  // namespace mx::cpu
