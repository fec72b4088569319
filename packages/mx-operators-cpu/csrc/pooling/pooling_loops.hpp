// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pooling/pooling.hpp"

namespace mx::cpu {

PlanPtr pooling_loops(const Signature& signature, const PoolOptions& options, const Cost& cost);
PlanPtr pooling_backward_loops(const Signature& signature, const PoolOptions& options, const Cost& cost);

// Maxima, means and sums in float64, wherever channels lie.
PlanPtr double_pooling(const Signature& signature, const PoolOptions& options, const Cost& cost);
PlanPtr double_pooling_backward(const Signature& signature, const PoolOptions& options, const Cost& cost);

// Whether square windows of two or three lie side by side, taken by their maxima, in float32, channels first.
bool is_tiled_max(const Spec& data, const Spec& out, const PoolOptions& options);
PlanPtr tiled_max(const Signature& signature, const PoolOptions& options, const Cost& cost);
PlanPtr tiled_max_backward(const Signature& signature, const PoolOptions& options, const Cost& cost);

// Whether every window is a whole image, taken by its mean, in float32.
bool is_global_mean(const Spec& data, const Spec& out, const PoolOptions& options);
PlanPtr global_mean(const Signature& signature, const Cost& cost);
PlanPtr global_mean_backward(const Signature& signature, const Cost& cost);

}  // namespace mx::cpu
