// SPDX-License-Identifier: Apache-2.0
#include "account.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "available_memory.h"
#include "mx_core/failure.hpp"

namespace mx::storage {
namespace {

constexpr uint64_t kLargestBlock = uint64_t{1} << 46;  // half of the address space
constexpr size_t kNamedHolders = 4;  // in a refusal
constexpr uint64_t kSlack = uint64_t{64} << 20;

// What the pool may hold beside the blocks in use: a quarter of the most that ever was in use, so
// that changing shapes do not make a process grow without end.
uint64_t bound_for(uint64_t high_water) noexcept { return high_water + high_water / 4 + kSlack; }

void raise_to(std::atomic<uint64_t>& maximum, uint64_t value) noexcept {
  uint64_t seen = maximum.load(std::memory_order_relaxed);
  while (seen < value && !maximum.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

Account::Account(mx_context context, std::string name, std::unique_ptr<Allocator> allocator, Journal& journal)
    : context_(context), name_(std::move(name)), allocator_(std::move(allocator)), journal_(journal) {
  allocator_->set_bound(kSlack);
}

void Account::alloc(size_t bytes, const char* tag, mx_block* block) {
  *block = {nullptr, bytes, context_, nullptr};
  if (bytes == 0) {
    empty_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (bytes > kLargestBlock) refuse(bytes, tag, "no system has that much");
  reserve(bytes, tag);
  block->data = allocator_->alloc(bytes);
  if (block->data == nullptr) {
    allocator_->release();
    errno = 0;
    block->data = allocator_->alloc(bytes);
  }
  if (block->data == nullptr) {
    const bool descriptors = errno == EMFILE || errno == ENFILE;  // each shared block has one
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    if (descriptors) refuse(bytes, tag, "no file descriptor is left (ulimit -n)");
    refuse(bytes, tag, "the system has no more (" + std::to_string(available_memory()) + " available)");
  }
  record(bytes, tag, block);
}

void Account::record(size_t bytes, const char* tag, mx_block* block) noexcept {
  if (Holder* mine = holder(tag)) {
    mine->bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    block->handle = mine;
  }
  if (journal_.on()) tell(static_cast<int64_t>(bytes), tag);
}

void Account::tell(int64_t bytes, const char* tag) noexcept {
  journal_.add({0, context_, bytes, used_.load(std::memory_order_relaxed), allocator_->counts().pooled, tag});
}

void Account::reserve(size_t bytes, const char* tag) {
  const uint64_t limit = limit_.load(std::memory_order_relaxed);
  if (limit == 0) {
    raise_peak(used_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
    return;
  }
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit || used > limit - bytes) refuse(bytes, tag, "the limit is reached");
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  raise_peak(used + bytes);
}

void Account::raise_peak(uint64_t used) noexcept {
  if (used > peak_.load(std::memory_order_relaxed)) raise_to(peak_, used);
  if (used <= high_water_.load(std::memory_order_relaxed)) return;
  raise_to(high_water_, used);
  if (limit_.load(std::memory_order_relaxed) == 0) {
    allocator_->set_bound(bound_for(high_water_.load(std::memory_order_relaxed)));
  }
}

void Account::set_limit(uint64_t bytes) noexcept {
  limit_.store(bytes);
  allocator_->set_bound(bytes != 0 ? bytes : bound_for(high_water_.load()));
}

void Account::unreserve(const mx_block& block) noexcept {
  used_.fetch_sub(block.bytes, std::memory_order_relaxed);
  if (block.handle != nullptr) {
    static_cast<Holder*>(block.handle)
        ->bytes.fetch_sub(static_cast<int64_t>(block.bytes), std::memory_order_relaxed);
  }
}

void Account::free(const mx_block& block) noexcept {
  if (block.data == nullptr) return;
  unreserve(block);
  allocator_->free(block.data, block.bytes);
  if (journal_.on()) tell(-static_cast<int64_t>(block.bytes), nullptr);
}

void Account::direct_free(const mx_block& block) noexcept {
  if (block.data == nullptr) return;
  unreserve(block);
  allocator_->direct_free(block.data, block.bytes);
  if (journal_.on()) tell(-static_cast<int64_t>(block.bytes), nullptr);
}

mx_storage_stats Account::stats() noexcept {
  const AllocatorCounts counts = allocator_->counts();
  mx_storage_stats stats{};
  stats.size = sizeof stats;
  stats.bytes_in_use = used_.load();
  stats.bytes_pooled = counts.pooled;
  stats.bytes_peak = peak_.load();
  stats.bytes_limit = limit_.load();
  stats.allocations = counts.allocations + empty_.load();
  stats.pool_hits = counts.hits;
  return stats;
}

// An open-addressed table of pointers: entries are never removed, so reading takes no lock.
Holder* Account::holder(const char* tag) noexcept {
  if (tag == nullptr) return nullptr;
  const auto hash = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(tag) * 0x9E3779B97F4A7C15U >> 32);
  for (uint32_t probe = 0; probe < kHolders; ++probe) {
    Holder& slot = holders_[(hash + probe) % kHolders];
    const char* there = slot.tag.load(std::memory_order_acquire);
    if (there == nullptr &&
        slot.tag.compare_exchange_strong(there, tag, std::memory_order_acq_rel)) {
      return &slot;
    }
    if (there == tag) return &slot;
  }
  return nullptr;
}

void Account::refuse(size_t bytes, const char* tag, const std::string& why) {
  // The same text may come from several libraries under several addresses.
  std::map<std::string_view, int64_t> by_text;
  each_holder([&](const char* text, int64_t held) { by_text[text] += held; });
  std::vector<std::pair<int64_t, std::string_view>> largest;
  for (const auto& [text, held] : by_text) {
    if (held > 0) largest.emplace_back(held, text);
  }
  std::sort(largest.begin(), largest.end(), std::greater<>());
  if (largest.size() > kNamedHolders) largest.resize(kNamedHolders);
  const mx_storage_stats now = stats();
  std::string text = "[storage] " + name_ + ": cannot allocate " + std::to_string(bytes) + " bytes";
  if (tag != nullptr) text += std::string(" for ") + tag;
  text += std::string(", ") + why + ": " + std::to_string(now.bytes_in_use) + " in use, " +
          std::to_string(now.bytes_pooled) + " pooled, limit ";
  text += now.bytes_limit == 0 ? "none" : std::to_string(now.bytes_limit);
  const char* before = "; most is held by ";
  for (const auto& [held, holder] : largest) {
    text += before + std::string(holder) + " (" + std::to_string(held) + ")";
    before = ", ";
  }
  throw Error(MX_ERROR_MEMORY, text);
}

}  // namespace mx::storage
