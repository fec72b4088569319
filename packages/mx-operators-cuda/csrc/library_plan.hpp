// SPDX-License-Identifier: Apache-2.0
//
// What cuDNN computes in a plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cudnn.hpp"

namespace mx::cuda::dnn {

// Addresses of tensors are multiples of this.
constexpr uintptr_t kAlignment = 16;
// That of the workspace is one of this.
constexpr uintptr_t kWorkspaceAlignment = 256;

// A graph of cuDNN, or a layer of its other interface.  Immutable.  Threads: any.
class LibraryPlan {
 public:
  LibraryPlan() = default;
  LibraryPlan(const LibraryPlan&) = delete;
  LibraryPlan& operator=(const LibraryPlan&) = delete;
  virtual ~LibraryPlan() = default;

  size_t workspace() const noexcept { return workspace_; }  // bytes
  // Of the tensors, in the order of a run's addresses.
  virtual const std::vector<int64_t>& ids() const noexcept = 0;
  // Whether a run may get null for results that are not wanted.
  virtual bool omits() const noexcept { return false; }
  // Enqueues it.  `pointers` belong to `ids`; the GPU's context is current.  Throws mx::Error.
  virtual void run(const Gpu& gpu, Stream stream, const std::vector<void*>& pointers, void* workspace,
                   const std::string& where) const = 0;

 protected:
  size_t workspace_ = 0;
};

}  // namespace mx::cuda::dnn
