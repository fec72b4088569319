// SPDX-License-Identifier: Apache-2.0
#include "shared_sums.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "chunks.hpp"
#include "direct_sums.hpp"
#include "mx_core/types.hpp"
#include "simd.hpp"
#include "sum.hpp"

namespace mx::kv {
namespace {

constexpr size_t kPace = 2;             // chunks that a worker may have written before the others are with it
constexpr int64_t kPatience = 50'000;   // nanoseconds that it waits for them then

// Takes chunks through the window: each worker writes what the others are to add, adds its own part of what the others
// have written, and takes the sums of the other parts.  It does what is possible, the last of these first: where workers
// keep pace, a chunk is done while it is in the caches.  One that is ahead looks for the others for a while, so that they
// come closer; if the system lets them not run, it goes ahead.
class Passage {
 public:
  Passage(Window& window, const std::vector<Item>& items, const std::function<void(size_t)>& done)
      : window_(window), items_(items), done_(done), chunks_(chunks_of(items, Window::kChunk, Window::kChunk)),
        first_(window.chunks()), rank_(window.rank()), workers_(window.workers()), adder_(items) {}

  bool run() {
    const auto closer = [this] { return can_take() || can_add(); };
    const auto ready = [this, closer] { return closer() || can_write(); };
    bool alone = false;  // the others do not run
    while (taken_ < chunks_.size()) {
      if (can_take()) {
        take();
        alone = false;
      } else if (can_add()) {
        add_part();
        alone = false;
      } else if (can_write()) {
        if (written_ - added_ < kPace || alone) {
          write();
        } else {
          alone = !window_.look(closer, kPatience);
        }
      } else if (!window_.wait(ready)) {
        return false;
      }
    }
    window_.pass(chunks_.size());
    while (next_ < items_.size()) done_(next_++);  // of no bytes
    return true;
  }

 private:
  size_t begin_of(int64_t worker, size_t bytes) const noexcept { return kv::begin_of(worker, workers_, bytes); }

  bool can_write() const noexcept { return written_ < chunks_.size() && window_.has_free(Slot::kTerms); }
  bool can_add() const noexcept {
    return added_ < written_ && window_.reached(Mark::kWritten, first_ + added_ + 1) && window_.has_free(Slot::kSums);
  }
  bool can_take() const noexcept { return taken_ < added_ && window_.reached(Mark::kSummed, first_ + taken_ + 1); }

  void write() {
    const Chunk& chunk = chunks_[written_];
    const uint64_t number = first_ + written_++;
    window_.claim(Slot::kTerms, number);
    char* slot = window_.memory(Slot::kTerms, rank_, number);
    const Item& item = items_[chunk.pieces.front().item];
    const Piece& piece = chunk.pieces.front();
    switch (chunk.kind) {
      case Kind::kSum: {
        const auto copy = [&](const Piece& p, size_t from, size_t to) {
          std::memcpy(slot + from, items_[p.item].send + p.from + (from - p.at), to - from);
        };
        chunk.each(0, begin_of(rank_, chunk.bytes), copy);
        chunk.each(begin_of(rank_ + 1, chunk.bytes), chunk.bytes, copy);
        break;
      }
      case Kind::kFirst:
        if (rank_ == item.root) std::memcpy(slot, static_cast<const char*>(item.targets[0]) + piece.from, piece.bytes);
        break;
      case Kind::kCodes:
        compress(item.code, item.threshold, reinterpret_cast<const float*>(item.send + piece.from),
                 item.residual + piece.from / sizeof(float), reinterpret_cast<uint8_t*>(slot),
                 static_cast<int64_t>(piece.bytes / sizeof(float)));
        break;
    }
    window_.publish(Mark::kWritten, number + 1);
  }

  void add_part() {
    const Chunk& chunk = chunks_[added_];
    const uint64_t number = first_ + added_++;
    window_.claim(Slot::kSums, number);
    const Piece& piece = chunk.pieces.front();
    switch (chunk.kind) {
      case Kind::kSum: add_own(chunk, number); break;
      case Kind::kFirst: {
        const int64_t root = items_[piece.item].root;
        adder_.deliver(piece, 0, piece.bytes, terms(root, number), rank_ == root ? 1 : 0);
        break;
      }
      case Kind::kCodes: expand_all(piece, number); break;
    }
    window_.publish(Mark::kSummed, number + 1);
  }

  const char* terms(int64_t worker, uint64_t number) const noexcept {
    return window_.memory(Slot::kTerms, worker, number);
  }

  void add_own(const Chunk& chunk, uint64_t number) {
    const size_t begin = begin_of(rank_, chunk.bytes);
    char* sums = window_.memory(Slot::kSums, rank_, number);
    chunk.each(begin, begin_of(rank_ + 1, chunk.bytes), [&](const Piece& piece, size_t from, size_t to) {
      const size_t offset = from - piece.at;
      sources_.clear();
      for (int64_t worker = 0; worker < workers_; ++worker) {
        const char* mine = items_[piece.item].send + piece.from + offset;
        sources_.push_back(worker == rank_ ? mine : terms(worker, number) + from);
      }
      adder_.add(piece, offset, to - from, sources_, sums + (from - begin), 0, 1);  // from where the others take them
    });
  }

  void expand_all(const Piece& piece, uint64_t number) {
    const Item& item = items_[piece.item];
    const Expander expander(item.code, item.threshold);
    auto* to = reinterpret_cast<float*>(static_cast<char*>(item.targets[0]) + piece.from);
    for (int64_t worker = 0; worker < workers_; ++worker) {
      expander(reinterpret_cast<const uint8_t*>(terms(worker, number)), to,
               static_cast<int64_t>(piece.bytes / sizeof(float)), worker > 0);
    }
    adder_.deliver(piece, 0, piece.bytes, reinterpret_cast<const char*>(to), 1);
  }

  void take() {
    const Chunk& chunk = chunks_[taken_];
    const uint64_t number = first_ + taken_++;
    for (int64_t worker = 0; worker < workers_ && chunk.kind == Kind::kSum; ++worker) {
      if (worker == rank_) continue;
      const size_t begin = begin_of(worker, chunk.bytes);
      chunk.each(begin, begin_of(worker + 1, chunk.bytes), [&](const Piece& piece, size_t from, size_t to) {
        const char* sums = window_.memory(Slot::kSums, worker, number) + (from - begin);
        adder_.deliver(piece, from - piece.at, to - from, sums, 0);
      });
    }
    fence_streams();  // of this chunk's sums, too: what is complete may be read
    window_.publish(Mark::kTaken, number + 1);
    for (const Piece& piece : chunk.pieces) {
      if (!piece.last) continue;
      while (next_ <= piece.item) done_(next_++);
    }
  }

  Window& window_;
  const std::vector<Item>& items_;
  const std::function<void(size_t)>& done_;
  const std::vector<Chunk> chunks_;
  const uint64_t first_;
  const int64_t rank_, workers_;
  size_t written_ = 0, added_ = 0, taken_ = 0;  // chunks
  size_t next_ = 0;                             // item that is not complete
  Adder adder_;
  std::vector<const void*> sources_;
};

}  // namespace

bool can_exchange(int32_t dtype) noexcept { return dtype == MX_BOOL || can_sum(dtype); }

bool exchange(Window& window, const std::vector<Item>& items, const std::function<void(size_t)>& done) {
  std::vector<Direct> direct;
  if (!find_direct(window, items, direct)) return false;
  if (direct.empty()) return Passage(window, items, done).run();
  std::vector<Item> others;
  std::vector<size_t> places;
  for (size_t i = 0, next = 0; i < items.size(); ++i) {
    if (next < direct.size() && direct[next].item == i) {
      ++next;
    } else {
      others.push_back(items[i]);
      places.push_back(i);
    }
  }
  return Passage(window, others, [&](size_t i) { done(places[i]); }).run() && sum_direct(window, items, direct, done);
}

}  // namespace mx::kv
