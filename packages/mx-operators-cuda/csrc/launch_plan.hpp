// SPDX-License-Identifier: Apache-2.0
//
// A plan (mx.plan.v1) that enqueues kernels and matrix products one after another on the stream it is
// given.  What each kernel's parameters are is data, so every generator of kernels makes the same plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "blas.hpp"
#include "kernel.hpp"
#include "mx_core/plan.hpp"
#include "parameter.hpp"

namespace mx::cuda {

struct Launch {
  std::shared_ptr<Kernel> kernel;
  uint32_t blocks;
  uint32_t threads;
  uint32_t shared_bytes;
  std::vector<Parameter> parameters;
};

// What run-time scalars must satisfy: `larger` is at least, or above, `smaller` (-1: zero).
struct Condition {
  uint32_t larger;
  int32_t smaller;
  bool above;
  std::string refusal;
};

// The only output has as many rows as the first steps count: a run waits for them, and asks for its memory then.
struct Counted {
  size_t steps;
  uint32_t scratch;  // the piece that holds the number of rows, int64
  size_t offset;     // bytes from its beginning
  std::vector<int64_t> row;  // the extents of a row
};

// What a plan is made of, besides its signature.
struct LaunchSpec {
  std::string name;  // the operator's
  int32_t gpu;
  std::vector<size_t> scratch;  // bytes of each piece
  uint64_t random_blocks = 0;
  bool adds = true;  // false: a request to add is refused
  std::vector<Condition> conditions;
  std::vector<std::variant<Launch, Product>> steps;  // empty: there is nothing to compute
  std::optional<Counted> counted = std::nullopt;
};

// Throws mx::Error for parameters that refer to what there is not, or a kernel that does not load.
class LaunchPlan final : public Plan {
 public:
  LaunchPlan(Signature signature, LaunchSpec spec);

 private:
  void check(const Call& call) const override;
  void check_tensor(const char* what, size_t i, const mx_tensor& given, const Spec& spec) const;
  void check_parameter(const Parameter& p, const std::string& owner) const;
  size_t limit_of(Parameter::Kind kind) const;
  void check_counted();
  void execute(const Call& call) const override;
  // Runs steps from `begin` up to `end`.
  void run_steps(const Gpu& gpu, const Call& call, size_t begin, size_t end) const;
  int64_t counted_rows(const Gpu& gpu, const Call& call) const;
  void* pointer(const Parameter& p, const Call& call) const;
  void enqueue(const Launch& launch, const Gpu& gpu, const Call& call) const;
  void enqueue(const Product& product, const Gpu& gpu, const Call& call) const;
  void check_step(const Launch& launch, const Gpu& gpu) const;
  void check_step(const Product& product, const Gpu& gpu) const;

  const LaunchSpec spec_;
  std::vector<Section> scratch_;
};

}  // namespace mx::cuda
