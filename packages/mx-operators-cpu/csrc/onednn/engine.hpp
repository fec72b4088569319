// SPDX-License-Identifier: Apache-2.0
//
// The oneDNN engine that all primitives of this package share.
#pragma once

#include "oneapi/dnnl/dnnl.hpp"

namespace mx::cpu {

// The process's CPU engine; lives until the process ends, as primitives may outlive static destruction.
const dnnl::engine& cpu_engine();

}  // namespace mx::cpu
