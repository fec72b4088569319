// SPDX-License-Identifier: Apache-2.0
//
// Connections between workers, and sums over them.  Each worker adds a part of every chunk: it gets that of all others,
// adds while the next ones come, and sends the sums while it gets theirs.  Bytes go from where they are and come where
// they belong; only what is to be added passes through a room that stays in the caches.
//
// Two workers have two connections: over one they send each other terms, over the other one sums.  Both know what comes
// next on each, so nothing but numbers and values passes.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "transport.hpp"

namespace mx::kv {

// Threads: one, but for `stop`.
// Blocks: asleep, until another worker has sent or taken something.  One that is gone may never: `stop` ends waits.
// Owns: the descriptors.
class Links final : public Transport {
 public:
  static constexpr size_t kPart = 256 << 10;   // bytes of a chunk that a worker adds, at most
  static constexpr size_t kRoom = kPart + 64;  // bytes for another worker's terms of it: the last part has a rest
  static constexpr size_t kRooms = 4;          // chunks of which terms may have come before they are added

  // `connections`: of each worker the descriptors over which terms and sums pass, of streams; those of `rank` are not
  // used.
  // Errors: the system refuses.
  Links(const std::vector<std::pair<int, int>>& connections, int64_t rank);
  ~Links() override;

  int64_t rank() const noexcept { return rank_; }
  int64_t workers() const noexcept { return workers_; }

  size_t numbers() const noexcept override { return SIZE_MAX; }
  void tell(const std::vector<int64_t>& numbers) override;
  bool told(int64_t nanoseconds) override;
  void least(std::vector<int64_t>& numbers) const override;
  bool exchange(const std::vector<Item>& items, const std::function<void(size_t)>& done) override;
  bool failed() const noexcept override { return stopped() || !broken_.empty(); }

  // Ends all waits, now and later.  Threads: any.
  void stop() noexcept;
  bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }
  // How a connection has broken; empty if none has.
  const std::string& broken() const noexcept { return broken_; }

 private:
  friend class Crossing;

  struct Connection {
    int file = -1;
    bool readable = true, writable = true;  // as far as is known
  };
  enum class Over { kTerms, kSums };
  Connection& connection(Over over, int64_t worker) noexcept {
    return connections_[static_cast<size_t>(over)][static_cast<size_t>(worker)];
  }
  // Bytes that were moved, 0 if none can be now or the connection broke.
  size_t receive(Over over, int64_t worker, const std::vector<iovec>& to);
  size_t send(Over over, int64_t worker, const std::vector<iovec>& from);
  void breaks(Over over, int64_t worker, const char* how);
  // Waits until something that `wants(over, worker)` says, as events of poll, may be done; at most so many nanoseconds
  // (< 0: without limit).  False when time is over or `failed`.
  bool wait(const std::function<short(Over, int64_t)>& wants, int64_t nanoseconds);

  const int64_t rank_, workers_;
  std::vector<Connection> connections_[2];
  int bell_ = -1;
  std::atomic<bool> stopped_{false};
  std::string broken_;
  std::vector<int64_t> mine_;                 // numbers
  std::vector<std::vector<int64_t>> theirs_;  // by workers
  std::vector<size_t> gone_, come_;           // bytes of them
  std::vector<char> room_;                    // for terms
};

}  // namespace mx::kv
