// SPDX-License-Identifier: Apache-2.0
//
// A kernel of the user, launched on arrays as an operation of the engine: ordered by the arrays' variables.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernel.hpp"
#include "mx_core/engine.h"
#include "mx_core/invoke.h"

namespace mx::cuda {

// One argument of a kernel: the memory of an array, or the bits of a number of at most eight bytes.
struct Argument {
  mx_array* array;  // null: a number
  bool written;     // or only read
  uint64_t bits;
};

struct DirectLaunch {
  std::shared_ptr<Kernel> kernel;
  std::string name;  // in messages and profiles
  int32_t gpu;
  std::array<uint32_t, 3> grid, block;
  uint32_t shared_bytes;
  std::vector<Argument> arguments;
};

// Pushes a launch; the operation holds the arrays until it has been launched.  What the kernel does wrong fails what it
// writes.  Threads: any, without the GIL.  Blocks: never.
// Errors: there is no such GPU; the kernel cannot be loaded; an array lies elsewhere; the engine has stopped.
void push(const mx_engine_api* engine, const mx_invoke_api* invoke, DirectLaunch launch, int32_t priority);

}  // namespace mx::cuda
