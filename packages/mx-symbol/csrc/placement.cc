// SPDX-License-Identifier: Apache-2.0
#include "placement.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace mx::symbol {
namespace {

bool within(const StepSet& some, const StepSet& all) {
  for (size_t i = 0; i < some.size(); ++i) {
    if (some[i] & ~all[i]) return false;
  }
  return true;
}

// Whether blocks may be alive at the same time: at a step of the schedule, or in an order that data flow allows.
struct Interval {
  int64_t birth, death;
};
bool overlap(const Interval& a, const Interval& b) { return a.birth <= b.death && b.birth <= a.death; }
bool overlap(const FlowLife* a, const FlowLife* b) {
  return !within(a->users, b->before) && !within(b->users, a->before);
}

// Free ranges below the top, by offset and by size.
class Gaps {
 public:
  // The start of the smallest gap of at least `size`, whose rest stays free; false if there is none.
  bool take(uint64_t size, uint64_t& start) {
    const auto found = by_size_.lower_bound({size, 0});
    if (found == by_size_.end()) return false;
    const uint64_t available = found->first;
    start = found->second;
    remove(by_start_.find(start));
    if (available > size) add(start + size, available - size);
    return true;
  }

  // Grows an arena, beginning with the gap below its top; returns the offset and moves the top.
  uint64_t extend(uint64_t size, uint64_t& top) {
    uint64_t start = top;
    if (!by_start_.empty()) {
      const auto last = std::prev(by_start_.end());
      if (last->first + last->second == top) {
        start = last->first;
        remove(last);
      }
    }
    top = start + size;
    return start;
  }

  // Frees a range and joins it with free neighbours.
  void release(uint64_t start, uint64_t size) {
    if (size == 0) return;
    auto next = by_start_.lower_bound(start);
    if (next != by_start_.end() && next->first == start + size) {
      size += next->second;
      next = remove(next);
    }
    if (next != by_start_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == start) {
        start = before->first;
        size += before->second;
        remove(before);
      }
    }
    add(start, size);
  }

 private:
  using Starts = std::map<uint64_t, uint64_t>;

  void add(uint64_t start, uint64_t size) {
    by_size_.insert({size, start});
    by_start_.insert({start, size});
  }
  Starts::iterator remove(Starts::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    return by_start_.erase(gap);
  }

  std::set<std::pair<uint64_t, uint64_t>> by_size_;
  Starts by_start_;
};

// In schedule order, into the smallest gap that fits.
Offsets best_fit(const std::vector<Block>& blocks) {
  Offsets result;
  result.of.resize(blocks.size());
  Gaps gaps;
  std::multimap<int64_t, size_t> ending;  // by death, of equal ones in the order of the blocks
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    while (!ending.empty() && ending.begin()->first < block.birth) {
      const size_t dead = ending.begin()->second;
      gaps.release(result.of[dead], blocks[dead].size);
      ending.erase(ending.begin());
    }
    if (block.size != 0 && !gaps.take(block.size, result.of[i])) {
      result.of[i] = gaps.extend(block.size, result.total);
    }
    ending.insert({block.death, i});
  }
  return result;
}

// Into the smallest range that fits, in schedule order, of those whose users have run before in every order.
// Ranges are not joined: each remembers who used it.  Only the latest are looked at.
Offsets best_ordered_fit(const std::vector<Block>& blocks, const std::vector<FlowLife>& lives) {
  constexpr size_t kRanges = 256;
  struct Range {
    uint64_t size, offset;
    const StepSet* users;
  };
  Offsets result;
  result.of.resize(blocks.size());
  std::deque<Range> free;
  const auto release = [&](const Range& range) {
    if (range.size == 0) return;
    if (free.size() == kRanges) free.pop_front();
    free.push_back(range);
  };
  std::multimap<int64_t, size_t> ending;  // by death, of equal ones in the order of the blocks
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint64_t size = blocks[i].size;
    while (!ending.empty() && ending.begin()->first < blocks[i].birth) {
      const size_t dead = ending.begin()->second;
      release({blocks[dead].size, result.of[dead], &lives[dead].users});
      ending.erase(ending.begin());
    }
    ending.insert({blocks[i].death, i});
    if (size == 0) continue;
    auto best = free.end();
    for (auto range = free.begin(); range != free.end(); ++range) {
      if (range->size < size || !within(*range->users, lives[i].before)) continue;
      if (best == free.end() || std::tie(range->size, range->offset) < std::tie(best->size, best->offset)) best = range;
    }
    if (best == free.end()) {
      result.of[i] = result.total;
      result.total += size;
      continue;
    }
    const Range found = *best;
    free.erase(best);
    result.of[i] = found.offset;
    release({found.size - size, found.offset + size, found.users});
  }
  return result;
}

// One after the other, each at the lowest offset that is free throughout its life.
template <class Life>
uint64_t greedy(const std::vector<Block>& blocks, const std::vector<Life>& lives, const std::vector<uint32_t>& order,
                std::vector<uint64_t>& offsets) {
  struct Placed {
    uint64_t offset, end;
    Life life;
  };
  uint64_t total = 0;
  std::vector<Placed> placed;  // by offset
  placed.reserve(order.size());
  for (const uint32_t i : order) {
    const uint64_t size = blocks[i].size;
    offsets[i] = 0;
    if (size == 0) continue;
    uint64_t offset = 0;
    for (const Placed& other : placed) {
      if (!overlap(lives[i], other.life)) continue;
      if (other.offset >= offset && other.offset - offset >= size) break;
      offset = std::max(offset, other.end);
    }
    const auto position = std::lower_bound(placed.begin(), placed.end(), offset,
                                           [](const Placed& a, uint64_t at) { return a.offset < at; });
    placed.insert(position, {offset, offset + size, lives[i]});
    offsets[i] = offset;
    total = std::max(total, offset + size);
  }
  return total;
}

// Keeps the smallest arena so far; true when none can be smaller.
class Best {
 public:
  Best(Offsets first, uint64_t live) : best_(std::move(first)), live_(live) {}
  bool done() const noexcept { return best_.total <= live_; }
  void offer(uint64_t total, const std::vector<uint64_t>& offsets) {
    if (total < best_.total) best_ = {offsets, total};
  }
  Offsets take() { return std::move(best_); }

 private:
  Offsets best_;
  uint64_t live_;
};

// Greedy placements in several orders, where the linear heuristic left gaps.
template <class Life>
Offsets improved(Best best, const std::vector<Block>& blocks, const std::vector<Life>& lives,
                 const PlacementLimits& limits) {
  if (blocks.size() > limits.greedy_blocks || best.done()) return best.take();
  std::vector<uint64_t> offsets(blocks.size());
  std::vector<uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto life = [&](uint32_t i) { return blocks[i].death - blocks[i].birth; };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::make_tuple(~blocks[a].size, -life(a), blocks[a].birth) <
           std::make_tuple(~blocks[b].size, -life(b), blocks[b].birth);
  });
  best.offer(greedy(blocks, lives, order, offsets), offsets);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::make_tuple(-life(a), ~blocks[a].size) < std::make_tuple(-life(b), ~blocks[b].size);
  });
  for (uint32_t round = 0; round < limits.rounds && !best.done(); ++round) {
    best.offer(greedy(blocks, lives, order, offsets), offsets);
    const auto end = [&](uint32_t i) { return offsets[i] + blocks[i].size; };
    const auto top = std::max_element(order.begin(), order.end(),
                                      [&](uint32_t a, uint32_t b) { return end(a) < end(b); });
    // What came to lie highest is placed earlier in the next round.
    std::rotate(order.begin() + (top - order.begin()) / 2, top, top + 1);
  }
  return best.take();
}

}  // namespace

Offsets place(const std::vector<Block>& blocks, uint64_t live, const PlacementLimits& limits) {
  std::vector<Interval> lives;
  lives.reserve(blocks.size());
  for (const Block& block : blocks) lives.push_back({block.birth, block.death});
  return improved(Best(best_fit(blocks), live), blocks, lives, limits);
}

Offsets place_by_flow(const std::vector<Block>& blocks, const std::vector<FlowLife>& lives, uint64_t live,
                      const PlacementLimits& limits) {
  if (lives.size() != blocks.size()) throw std::out_of_range("a life per block");
  std::vector<const FlowLife*> pointers;
  pointers.reserve(lives.size());
  for (const FlowLife& life : lives) {
    if (life.before.size() != lives[0].before.size() || life.users.size() != lives[0].before.size()) {
      throw std::out_of_range("sets of one size");
    }
    pointers.push_back(&life);
  }
  return improved(Best(best_ordered_fit(blocks, lives), live), blocks, pointers, limits);
}

}  // namespace mx::symbol
