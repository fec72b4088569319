// SPDX-License-Identifier: Apache-2.0
#include "direct_sums.hpp"

#include <algorithm>

#include "chunks.hpp"
#include "mx_core/types.hpp"
#include "neighbours.hpp"
#include "simd.hpp"
#include "sum.hpp"

namespace mx::kv {
namespace {

constexpr size_t kLeast = 1 << 20;      // bytes of an item: below, storage managers have no pages for it alone
constexpr size_t kTargets = 3;          // of an item and worker at most
constexpr size_t kRow = 1 + kTargets;   // numbers that a worker tells of an item: places, of what is sent first
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kPrivate = -1, kNone = -2;  // places: where others cannot see it, and of no target

bool is_large(const Item& item) noexcept {
  return item.kind == Kind::kSum && item.bytes >= kLeast && can_sum(item.dtype);
}

void tell_places(const Neighbours& neighbours, const Item& item, int64_t* row) {
  std::fill(row, row + kRow, kNone);
  if (item.targets.size() > kTargets) {
    row[0] = kPrivate;
    return;
  }
  row[0] = neighbours.place_of(item.send);
  for (size_t i = 0; i < item.targets.size(); ++i) row[1 + i] = neighbours.place_of(item.targets[i]);
}

// Notes a worker's arrays; false if one is private.
bool note(const Neighbours& neighbours, int64_t worker, const int64_t* row, Direct& direct) {
  if (std::find(row, row + kRow, kPrivate) != row + kRow) return false;
  direct.sources.push_back(neighbours.at(worker, row[0]));
  for (size_t i = 1; i < kRow && row[i] != kNone; ++i) direct.targets.push_back(neighbours.at(worker, row[i]));
  return true;
}

// Adds this worker's part.
void add_part(const Window& window, const Item& item, const Direct& direct) {
  const auto begin = [&](int64_t worker) {
    return static_cast<int64_t>(begin_of(worker, window.workers(), item.bytes) / item_size(item.dtype));
  };
  sum_unfenced(item.dtype, direct.sources, direct.targets, begin(window.rank()), begin(window.rank() + 1), 0);
  fence_streams();
}

}  // namespace

bool find_direct(Window& window, const std::vector<Item>& items, std::vector<Direct>& found) {
  if (window.neighbours() == nullptr) return true;
  const Neighbours& neighbours = *window.neighbours();
  std::vector<size_t> large;
  for (size_t i = 0; i < items.size() && (large.size() + 1) * kRow <= Window::kNumbers; ++i) {
    if (is_large(items[i])) large.push_back(i);
  }
  if (large.empty()) return true;
  std::vector<int64_t> places(large.size() * kRow);
  for (size_t i = 0; i < large.size(); ++i) tell_places(neighbours, items[large[i]], places.data() + i * kRow);
  window.tell(places);
  while (!window.told(kSecond)) {
    if (window.stopped()) return false;
  }
  for (size_t i = 0; i < large.size(); ++i) {
    Direct direct{large[i], {}, {}};
    bool all = true;
    for (int64_t worker = 0; worker < window.workers() && all; ++worker) {
      all = note(neighbours, worker, window.told_by(worker) + i * kRow, direct);
    }
    if (all) found.push_back(std::move(direct));
  }
  return true;
}

bool sum_direct(Window& window, const std::vector<Item>& items, const std::vector<Direct>& direct,
                const std::function<void(size_t)>& done) {
  const uint64_t first = window.directs();
  size_t ended = 0;
  const auto can_end = [&] { return window.reached(Mark::kDirect, first + ended + 1); };
  for (size_t i = 0; i < direct.size() && !window.stopped(); ++i) {
    add_part(window, items[direct[i].item], direct[i]);
    window.publish(Mark::kDirect, first + i + 1);
    while (ended <= i && can_end()) done(direct[ended++].item);
  }
  while (ended < direct.size()) {
    if (!window.wait(can_end)) return false;
    done(direct[ended++].item);
  }
  window.pass_directs(direct.size());
  return true;
}

}  // namespace mx::kv
