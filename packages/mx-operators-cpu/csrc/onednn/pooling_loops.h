// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.h"

namespace mx::onednn {

PlanPtr pooling_loops(const Signature& signature, const PoolOptions& options, const Cost& cost);
PlanPtr pooling_backward_loops(const Signature& signature, const PoolOptions& options, const Cost& cost);

}  // namespace mx::onednn
