// SPDX-License-Identifier: Apache-2.0
//
// BatchNorm, LayerNorm, GroupNorm (and InstanceNorm), LRN, and their gradients.
// They throw Unsupported (or dnnl::error) when another candidate should be asked.
#pragma once

#include "common/shape.hpp"
#include "common/plan.hpp"
#include "mx_core/engine.h"

namespace mx::cpu {

struct BatchNormOptions {
  int64_t axis = 1;
  double eps = 1e-3, momentum = 0.9;
  bool fix_gamma = true;
  bool use_batch_stats = true;  // training without use_global_stats
};
// Which devices' operations belong together, how many there are, and how long one waits for the others.
struct RendezvousOptions {
  std::string name;
  size_t devices = 1;
  double patience = 120;  // seconds
  const mx_engine_api* engine = nullptr;  // on whose threads they run, if on any's
};
// data, gamma, beta, moving_mean, moving_var -> output, mean, var; 0 where there is a fourth output, a step
PlanPtr batch_norm(const Signature& signature, const BatchNormOptions& options);
// out_grad, data, gamma, mean, var, moving_mean, moving_var, maybe a step, unread -> data_grad, gamma_grad, beta_grad
PlanPtr batch_norm_backward(const Signature& signature, const BatchNormOptions& options);
// The same of several devices' batches together, in training. The step (int64, one number) is what the devices' forward
// operations that met have in common and no others: backward operations of one step meet.
PlanPtr sync_batch_norm(const Signature& signature, const BatchNormOptions& options,
                        const RendezvousOptions& rendezvous);
PlanPtr sync_batch_norm_backward(const Signature& signature, const BatchNormOptions& options,
                                 const RendezvousOptions& rendezvous);

struct LayerNormOptions {
  int64_t axis = -1;
  double eps = 1e-5;
};
// data, gamma, beta -> output, mean, std
PlanPtr layer_norm(const Signature& signature, const LayerNormOptions& options);
// out_grad, data, gamma, mean, std -> data_grad, gamma_grad, beta_grad
PlanPtr layer_norm_backward(const Signature& signature, const LayerNormOptions& options);

struct GroupNormOptions {
  int64_t groups = 1;
  double eps = 1e-5;
};
// data, gamma, beta -> output, mean, std; one gamma and beta per group of channels
PlanPtr group_norm(const Signature& signature, const GroupNormOptions& options);
// out_grad, data, gamma, mean, std -> data_grad, gamma_grad, beta_grad
PlanPtr group_norm_backward(const Signature& signature, const GroupNormOptions& options);

struct LrnOptions {
  int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, knorm = 2;
};
// data -> output, norm; across axis 1
PlanPtr lrn(const Signature& signature, const LrnOptions& options);
// out_grad, data, norm -> data_grad
PlanPtr lrn_backward(const Signature& signature, const LrnOptions& options);

}  // namespace mx::cpu
