// SPDX-License-Identifier: Apache-2.0
//
// One compiled kernel, loaded on each GPU that runs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "gpu.hpp"

namespace mx::cuda {

// Never unloaded while anyone may launch it: whoever holds it keeps it for the process (the compiler's
// cache does).  Threads: any.
class Kernel {
 public:
  // `image`: what cuModuleLoadData takes, a CUBIN or PTX.
  Kernel(std::string name, std::string image) : name_(std::move(name)), image_(std::move(image)) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const std::string& name() const noexcept { return name_; }
  // Loads at the first call for a GPU.  Throws mx::Error.
  Function on(const Gpu& gpu);
  // Lets launches on a GPU have so many bytes of shared memory, or more where an earlier call said so: launches that
  // are not enqueued yet may need them.  Throws mx::Error.
  void allow_shared(const Gpu& gpu, uint32_t bytes);

 private:
  static constexpr int32_t kGpus = 64;
  const std::string name_;
  const std::string image_;
  std::mutex mutex_;  // guards loading, and what follows it
  std::atomic<Function> functions_[kGpus] = {};
  uint32_t shared_[kGpus] = {};  // bytes that launches may have
};

}  // namespace mx::cuda
