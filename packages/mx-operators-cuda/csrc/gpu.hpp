// SPDX-License-Identifier: Apache-2.0
//
// One GPU of this process: its primary context, its streams, its events.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver.hpp"

namespace mx::cuda {
class CapturedStep;
class Gpu;
class LastRun;
}

// A point on a stream: an event, and where it was recorded.
struct mx_token {
  mx::cuda::Event event = nullptr;
  mx::cuda::Stream stream = nullptr;
  mx::cuda::Gpu* gpu = nullptr;
  // Of what was captured: the point is where the last run of that ends.
  std::shared_ptr<const mx::cuda::LastRun> run = nullptr;
  mx::cuda::Event point() const noexcept;
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

  // Returns when everything that was enqueued on the GPU, by whomever, is done.  Blocks.  Throws mx::Error, also while a
  // step is captured.
  void synchronize() const;

  mx_token* record(Stream stream);
  void recycle(mx_token* token) noexcept;

  // What is captured, or told the numbers of its next run, on the stream that computes; null for most of the time.
  std::shared_ptr<CapturedStep> recorded() const;
  void record_to(std::shared_ptr<CapturedStep> step);
  // All that live: copies on other streams look whether they touch memory of theirs.
  std::vector<std::shared_ptr<CapturedStep>> captured() const;
  void add_captured(const std::shared_ptr<CapturedStep>& step);

 private:
  Gpu(const Functions& cuda, int32_t id);
  mx_token* take_token();

  const Functions& cuda_;
  const int32_t id_;
  const std::string name_;
  Ordinal ordinal_ = 0;
  Context context_ = nullptr;  // the primary one, retained for good
  Stream streams_[kLanes] = {};
  std::atomic<bool> records_{false};
  std::atomic<bool> has_captured_{false};
  mutable std::mutex mutex_;  // guards all that follows
  std::shared_ptr<CapturedStep> recorded_;
  std::vector<std::weak_ptr<CapturedStep>> captured_;
  std::vector<mx_token*> tokens_;  // not in use; room for all that exist, so that recycling needs none
  size_t tokens_made_ = 0;
  std::vector<int32_t> peers_;
};

// Where the last run of a captured step ends on its stream; before the first nothing is to be waited for.
// Threads: any.
class LastRun {
 public:
  explicit LastRun(Gpu& gpu);
  LastRun(const LastRun&) = delete;
  LastRun& operator=(const LastRun&) = delete;
  ~LastRun();
  Event event() const noexcept { return token_->event; }

 private:
  mx_token* const token_;
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
