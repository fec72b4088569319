// SPDX-License-Identifier: Apache-2.0
//
// Memory that one run of an operator needs and nobody else sees.
#pragma once

#include "small_vector.hpp"
#include "runtime.hpp"

namespace mx::nd {

// Threads: one.  On an accelerator the memory stays taken until the stream has passed the end of
// the object's life, because a launched kernel may still use it.
class Workspace {
 public:
  // For at most `blocks` pieces.
  Workspace(mx_context context, void* stream, size_t blocks)
      : context_(context), stream_(stream), blocks_(blocks) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();
  // 64-byte aligned, NULL for no bytes; contents undefined.  Throws Error.
  void* take(size_t bytes, const char* tag);

 private:
  mx_context context_;
  void* stream_;
  SmallVector<mx_block, 4> blocks_;
  size_t taken_ = 0;
};

// `storage.alloc` of a context.  When an accelerator is full it is tried again with the workspaces
// of finished runs.  Throws Error.
mx_block allocate_block(mx_context context, size_t bytes, const char* tag);
// Gives back the workspaces of runs that have finished.
void reclaim_workspaces() noexcept;

}  // namespace mx::nd
