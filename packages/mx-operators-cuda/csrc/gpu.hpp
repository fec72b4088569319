// SPDX-License-Identifier: Apache-2.0
//
// One GPU of this process: its primary context, its streams, its events.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "driver.hpp"

namespace mx::cuda {
class Gpu;
}

// A point on a stream: an event, and where it was recorded.
struct mx_token {
  mx::cuda::Event event;
  mx::cuda::Stream stream;
  mx::cuda::Gpu* gpu;
};

namespace mx::cuda {

// Lives as long as the process.  Threads: any, for all.
class Gpu {
 public:
  static constexpr int kLanes = 3;  // computes, copies in, copies out

  // Throws mx::Error when there is no such GPU, or CUDA refuses its context.
  static Gpu& at(int32_t id);
  // The GPU whose lane a stream is.
  static Gpu& of(Stream stream);

  int32_t id() const noexcept { return id_; }
  const std::string& name() const noexcept { return name_; }  // "gpu(0)"
  const Functions& cuda() const noexcept { return cuda_; }
  Context context() const noexcept { return context_; }
  Stream stream(int32_t lane) const;
  std::string model() const;
  int attribute(int which) const;
  // Free and total bytes.
  void memory(size_t* free_bytes, size_t* total) const;
  // Lets kernels and copies of this GPU reach the memory of another one directly, where it can.
  void reach(Gpu& peer);

  mx_token* record(Stream stream);
  void recycle(mx_token* token) noexcept;

 private:
  Gpu(const Functions& cuda, int32_t id);
  mx_token* take_token();

  const Functions& cuda_;
  const int32_t id_;
  const std::string name_;
  Ordinal ordinal_ = 0;
  Context context_ = nullptr;  // the primary one, retained for good
  Stream streams_[kLanes] = {};
  std::mutex mutex_;  // guards all that follows
  std::vector<mx_token*> tokens_;  // not in use; room for all that exist, so that recycling needs none
  size_t tokens_made_ = 0;
  std::vector<int32_t> peers_;
};

// Makes the primary context of a GPU current on this thread, then what was current before.
class Current {
 public:
  explicit Current(const Gpu& gpu);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Functions& cuda_;
};

}  // namespace mx::cuda
