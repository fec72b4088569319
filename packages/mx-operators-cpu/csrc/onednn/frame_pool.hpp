// SPDX-License-Identifier: Apache-2.0
//
// What runs of primitives write to besides scratch memory: oneDNN's handles of memory, whose addresses change from run
// to run.  A plan keeps as many as ever ran at once; the first are made with it, so that a run allocates nothing.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "mx_core/striped_mutex.hpp"

namespace mx::cpu {

// Threads: any number may take frames; a frame belongs to one thread at a time.
template <class Frame>
class FramePool {
  struct Node {
    Frame frame;
    std::unique_ptr<Node> next;
  };

 public:
  // `make`: of a frame.  `first`: frames to begin with.
  FramePool(std::function<Frame()> make, int first) : make_(std::move(make)) {
    for (int i = 0; i < first; ++i) give_back(made());
  }
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  // A frame until the end of the lease.
  class Lease {
   public:
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (node_ != nullptr) pool_.give_back(std::move(node_));
    }
    Frame& operator*() const { return node_->frame; }
    Frame* operator->() const { return &node_->frame; }

   private:
    friend class FramePool;
    Lease(FramePool& pool, std::unique_ptr<Node> node) : pool_(pool), node_(std::move(node)) {}
    FramePool& pool_;
    std::unique_ptr<Node> node_;
  };

  Lease take() {
    {
      const std::lock_guard<std::mutex> lock(Mutex::of(this));
      if (idle_ != nullptr) {
        auto node = std::move(idle_);
        idle_ = std::move(node->next);
        return {*this, std::move(node)};
      }
    }
    return {*this, made()};
  }

 private:
  using Mutex = StripedMutex<FramePool>;  // an operation may fork while others run

  std::unique_ptr<Node> made() const { return std::unique_ptr<Node>(new Node{make_(), nullptr}); }
  void give_back(std::unique_ptr<Node> node) {
    const std::lock_guard<std::mutex> lock(Mutex::of(this));
    node->next = std::move(idle_);
    idle_ = std::move(node);
  }

  const std::function<Frame()> make_;
  std::unique_ptr<Node> idle_;  // guarded by Mutex
};

}  // namespace mx::cpu
