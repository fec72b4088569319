// SPDX-License-Identifier: Apache-2.0
//
// Memory that the workers of one machine have in common: numbers that they tell each other, and slots through which
// arrays pass.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace mx::kv {

class Neighbours;

// How far a worker has come; each only grows.
enum class Mark { kTold, kWritten, kSummed, kTaken, kDirect };

// What a worker has of a chunk for the others: what they are to add, and the sums that it has made.
enum class Slot { kTerms, kSums };

// One worker's view of the memory.  Every worker has one, over the same file.
// Threads: one, but for `stop` and `stopped`.
// Blocks: the waits, asleep until another worker has come further.  A worker that is gone never does: `stop` ends waits.
class Window {
 public:
  static constexpr size_t kChunk = 256 << 10;  // bytes that pass at once
  static constexpr size_t kSlots = 32;         // chunks that a worker may be ahead of the others
  static constexpr size_t kNumbers = 1 << 16;  // that a worker may tell at once

  // Bytes of the memory for so many workers.
  static size_t bytes(int64_t workers) noexcept;

  // Maps the file, which has at least `bytes(workers)` bytes, zeros at first; the descriptor stays the caller's.
  // Errors: the system refuses, or the file is too short.
  Window(int file, int64_t rank, int64_t workers);
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window();

  int64_t rank() const noexcept { return rank_; }
  int64_t workers() const noexcept { return workers_; }

  // Tells the others numbers: at most kNumbers, and all workers as many.
  // Errors: more than that.
  void tell(const std::vector<int64_t>& numbers);
  // Whether all others have told theirs, after at most so many nanoseconds.
  bool told(int64_t nanoseconds);
  // The least of what the workers have told, number by number.
  void least(std::vector<int64_t>& numbers) const;
  // What a worker has told, until this one tells again.
  const int64_t* told_by(int64_t worker) const noexcept { return table(worker, turns_); }

  // Chunks are numbered from 0.
  uint64_t chunks() const noexcept { return chunks_; }  // so far
  void pass(uint64_t chunks) noexcept { chunks_ += chunks; }
  // Gives the next chunk a slot of this worker; false if all of them are still needed: terms by a worker, this one too,
  // that has not added them, sums by another that has not taken them.  The first that is free: as long as workers keep
  // pace, they use few, which stay in the caches.
  bool claim(Slot kind, uint64_t chunk) noexcept;
  bool has_free(Slot kind) const noexcept;
  // The slot of a chunk, aligned to 64: kChunk bytes of terms; kChunk / workers bytes of sums and some more.
  char* memory(Slot kind, int64_t worker, uint64_t chunk) const noexcept;

  // Items that do not pass through slots are numbered, too.
  uint64_t directs() const noexcept { return directs_; }
  void pass_directs(uint64_t items) noexcept { directs_ += items; }

  // What this worker sees of the others' arrays; NULL: nothing, as at first.  All workers see, or none.
  void see(std::shared_ptr<const Neighbours> neighbours) noexcept { neighbours_ = std::move(neighbours); }
  const Neighbours* neighbours() const noexcept { return neighbours_.get(); }

  // Says that this worker has come so far, and wakes those that wait for it.
  void publish(Mark mark, uint64_t value) noexcept;
  // Whether all others have come so far.
  bool reached(Mark mark, uint64_t value) const noexcept;
  // Looks, without sleeping, until what others publish makes `ready()` true; false after so many nanoseconds, or sooner
  // where workers have to share processors.
  bool look(const std::function<bool()>& ready, int64_t nanoseconds) const;
  // Waits until what others publish makes `ready()` true; false when stopped or after so many nanoseconds (< 0: without
  // limit).
  bool wait(const std::function<bool()>& ready, int64_t nanoseconds = -1);

  // Ends all waits of this worker, now and later.
  void stop() noexcept;
  bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

 private:
  struct Place;
  Place& place(int64_t worker) const noexcept;
  int64_t* table(int64_t worker, uint64_t turn) const noexcept;
  uint64_t least(Mark mark) const noexcept;  // of the others
  size_t first_free(Slot kind) const noexcept;

  const int64_t rank_, workers_;
  const bool crowded_;  // there are more workers than processors
  char* memory_ = nullptr;
  std::shared_ptr<const Neighbours> neighbours_;
  uint64_t chunks_ = 0, directs_ = 0, turns_ = 0;
  uint64_t held_[2][kSlots] = {};  // by each slot: the number of the chunk after it, or 0
  std::atomic<bool> stopped_{false};
};

}  // namespace mx::kv
