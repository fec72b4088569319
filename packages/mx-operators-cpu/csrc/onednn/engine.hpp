// SPDX-License-Identifier: Apache-2.0
//
// The oneDNN engine that all primitives of this package share.
#pragma once

#include "oneapi/dnnl/dnnl.hpp"

namespace mx::cpu {

// The process's CPU engine; lives until the process ends, as primitives may outlive static destruction.
const dnnl::engine& cpu_engine();

// The same, to describe a primitive for.  Throws mx::Error(MX_ERROR_MEMORY) where less memory can be had than making one
// takes: oneDNN does not look at what its allocations give while it describes one, and would end the process.
const dnnl::engine& describing_engine();

}  // namespace mx::cpu
