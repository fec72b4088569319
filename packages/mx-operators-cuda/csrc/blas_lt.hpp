// SPDX-License-Identifier: Apache-2.0
//
// Matrix products by cuBLASLt, which adds a bias and takes the positive part before it writes the result.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "blas.hpp"

namespace mx::cuda::lt {

// cuBLASLt is told that addresses are multiples of this, and that those of workspaces are of the second.
constexpr uintptr_t kAlignment = 16, kWorkspaceAlignment = 256;

// Loads cuBLASLt from a file, once per process; its version, such as 130000.  Throws mx::Error.
size_t load(const std::string& path);

// C = relu(op(A) op(B) + bias), or without one of them, of one matrix.
struct Epilogue {
  int32_t dtype;  // float32, float16 or bfloat16
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  int64_t row_a, row_b, row_c;  // elements from one row in memory to the next
  bool bias, relu;              // a number per column
};

// The algorithm that cuBLASLt's heuristics name first.  Threads: any.
class ProductPlan {
 public:
  // Throws mx::Error where cuBLASLt has none with so much workspace.
  ProductPlan(const Epilogue& what, size_t most_workspace, const Gpu& gpu);
  ~ProductPlan();
  ProductPlan(const ProductPlan&) = delete;
  ProductPlan& operator=(const ProductPlan&) = delete;

  size_t workspace() const noexcept { return workspace_; }
  const Epilogue& what() const noexcept { return what_; }
  // Enqueues it; `add`: C is added before the bias.  The GPU's context is current.
  void run(Stream stream, const void* a, const void* b, const void* bias, void* c, void* workspace, bool add,
           const std::string& where) const;

 private:
  struct Parts;
  const Epilogue what_;
  size_t workspace_ = 0;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace mx::cuda::lt

namespace mx::cuda {

// A product with an epilogue.  In a run that it cannot serve (the positive part is added to what is there; an address
// is not aligned) the `instead` steps that follow are enqueued in its place, and only then.
struct Finished {
  std::shared_ptr<const lt::ProductPlan> plan;
  Parameter a, b, c;
  std::optional<Parameter> bias;
  Parameter workspace;  // scratch, of which the first multiple of kWorkspaceAlignment is used
  size_t instead;
};

}  // namespace mx::cuda
