// SPDX-License-Identifier: Apache-2.0
//
// Best fit with splitting: large mappings (arenas) are cut to size, and freed neighbours grow
// together again.  Sizes that never repeat waste least here; every call takes one lock.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "allocator.h"
#include "registry.h"
#include "size_class.h"
#include "system_memory.h"

namespace mx::storage {
namespace {

constexpr size_t kArena = size_t{32} << 20;

size_t rounded(size_t bytes) noexcept { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class BestFitAllocator final : public Allocator {
  using Guard = std::lock_guard<std::mutex>;

 public:
  BestFitAllocator() {
    const Guard registry(registry_mutex());
    enlist(&mutex_);
  }
  ~BestFitAllocator() override {
    BestFitAllocator::release();
    const Guard registry(registry_mutex());
    delist(&mutex_);
  }

  void* alloc(size_t bytes) noexcept override {
    const size_t size = rounded(bytes);
    const Guard lock(mutex_);
    ++allocations_;
    try {
      auto found = free_.lower_bound({size, nullptr});
      if (found == free_.end()) {
        if (!grow(size)) return nullptr;
        found = free_.lower_bound({size, nullptr});
      } else {
        ++hits_;
      }
      char* begin = found->second;
      cut(pieces_.find(begin), size);
      return begin;
    } catch (...) {
      return nullptr;  // what was cut off stays a free piece of its own
    }
  }
  void free(void* data, size_t) noexcept override {
    const Guard lock(mutex_);
    join(pieces_.find(static_cast<char*>(data)));
  }
  // Memory goes back by whole arenas: at once when this was the last block of one.
  void direct_free(void* data, size_t) noexcept override {
    const Guard lock(mutex_);
    const auto piece = join(pieces_.find(static_cast<char*>(data)));
    if (piece->second.size == arenas_.at(piece->second.arena)) unmap(piece);
  }
  void release() noexcept override {
    const Guard lock(mutex_);
    release_locked();
  }
  void set_bound(uint64_t bytes) noexcept override {
    const Guard lock(mutex_);
    bound_ = bytes;
  }
  AllocatorCounts counts() noexcept override {
    const Guard lock(mutex_);
    return {pooled_, allocations_, hits_, allocations_};
  }

 private:
  using FreeSet = std::set<std::pair<size_t, char*>>;
  struct Piece {
    size_t size;
    char* arena;
    FreeSet::node_type node;  // of free_ while the piece is used: freeing needs no memory
  };
  using Pieces = std::map<char*, Piece>;

  bool grow(size_t size) {
    size_t length = std::max(kArena, whole_pages(size));
    if (footprint_ + length > bound_) release_locked();
    if (footprint_ + length > bound_) length = whole_pages(size);
    auto* arena = static_cast<char*>(map_pages(length));
    if (arena == nullptr) return false;
    try {
      arenas_.emplace(arena, length);
      pieces_.emplace(arena, Piece{length, arena, {}});
      free_.emplace(length, arena);
    } catch (...) {
      pieces_.erase(arena);
      arenas_.erase(arena);
      unmap_pages(arena, length);
      throw;
    }
    footprint_ += length;
    pooled_ += length;
    return true;
  }

  // Takes the first `size` bytes of a free piece; the rest is a free piece of its own.
  void cut(Pieces::iterator piece, size_t size) {
    const size_t rest = piece->second.size - size;
    char* behind = piece->first + size;
    if (rest != 0) {
      pieces_.emplace(behind, Piece{rest, piece->second.arena, {}});
      try {
        free_.emplace(rest, behind);
      } catch (...) {
        pieces_.erase(behind);
        throw;
      }
    }
    piece->second.node = free_.extract({piece->second.size, piece->first});
    piece->second.size = size;
    pooled_ -= size;
  }

  // Makes a used piece free, together with its free neighbours.
  Pieces::iterator join(Pieces::iterator piece) noexcept {
    FreeSet::node_type node = std::move(piece->second.node);
    pooled_ += piece->second.size;
    const auto next = std::next(piece);
    if (next != pieces_.end() && joins(next, piece)) absorb(piece, next);
    if (piece != pieces_.begin()) {
      const auto previous = std::prev(piece);
      if (joins(previous, piece)) {
        free_.erase({previous->second.size, previous->first});
        previous->second.size += piece->second.size;
        pieces_.erase(piece);
        piece = previous;
      }
    }
    node.value() = {piece->second.size, piece->first};
    free_.insert(std::move(node));
    return piece;
  }
  bool joins(Pieces::iterator neighbour, Pieces::iterator piece) const noexcept {
    return neighbour->second.node.empty() && neighbour->second.arena == piece->second.arena;
  }
  void absorb(Pieces::iterator piece, Pieces::iterator next) noexcept {
    free_.erase({next->second.size, next->first});
    piece->second.size += next->second.size;
    pieces_.erase(next);
  }

  void release_locked() noexcept {
    for (auto arena = arenas_.begin(); arena != arenas_.end();) {
      const auto piece = pieces_.find((arena++)->first);
      if (piece->second.node.empty() && piece->second.size == arenas_.at(piece->first)) unmap(piece);
    }
  }
  void unmap(Pieces::iterator piece) noexcept {
    const auto [begin, size] = std::pair(piece->first, piece->second.size);
    free_.erase({size, begin});
    pieces_.erase(piece);
    arenas_.erase(begin);
    unmap_pages(begin, size);
    footprint_ -= size;
    pooled_ -= size;
  }

  std::mutex mutex_;  // guards all that follows
  std::map<char*, size_t> arenas_;
  Pieces pieces_;  // all of every arena, in order of address
  FreeSet free_;
  uint64_t bound_ = ~uint64_t{0};
  uint64_t footprint_ = 0;
  uint64_t pooled_ = 0;
  uint64_t allocations_ = 0;
  uint64_t hits_ = 0;
};

}  // namespace

std::unique_ptr<Allocator> make_best_fit_allocator() { return std::make_unique<BestFitAllocator>(); }

}  // namespace mx::storage
