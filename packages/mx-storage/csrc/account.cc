// SPDX-License-Identifier: Apache-2.0
#include "account.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "available_memory.hpp"
#include "mx_core/failure.hpp"
#include "thread_values.hpp"

namespace mx::storage {
namespace {

constexpr uint64_t kLargestBlock = uint64_t{1} << 46;  // half of the address space
constexpr size_t kNamedHolders = 4;  // in a refusal
constexpr uint64_t kSlack = uint64_t{64} << 20;

// What the pool may hold besides the blocks in use: a quarter of the most that ever was in use, so
// that changing shapes do not make a process grow without end.
uint64_t bound_for(uint64_t high_water) noexcept { return high_water + high_water / 4 + kSlack; }

}  // namespace

Account::Account(mx_context context, std::string name, std::unique_ptr<Allocator> allocator, EventLog& events)
    : context_(context), name_(std::move(name)), number_(next_owner()), allocator_(std::move(allocator)), events_(events) {
  allocator_->set_bound(kSlack);
}

ThreadCredit* Account::thread_credit() noexcept {
  return ThreadValues<ThreadCredit>::find(number_, [this] {
    const Guard lock(mutex_);
    for (const auto& each : thread_credits_) {
      if (each->claim()) return each;
    }
    thread_credits_.push_back(std::make_shared<ThreadCredit>());
    return thread_credits_.back();
  });
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
    unreserve(bytes);
    if (descriptors) refuse(bytes, tag, "no file descriptor is left (ulimit -n)");
    refuse(bytes, tag, "the system has no more (" + std::to_string(available_memory()) + " available)");
  }
  record(bytes, tag, block);
}

void Account::hold(TagBytes* holder, int64_t bytes) noexcept {
  if (ThreadCredit* mine = thread_credit()) {
    mine->hold(static_cast<uint32_t>(holder - holders_), bytes);
  } else {
    holder->bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
}

void Account::record(size_t bytes, const char* tag, mx_block* block) noexcept {
  if (TagBytes* its = holder(tag)) {
    hold(its, static_cast<int64_t>(bytes));
    block->handle = its;
  }
  if (events_.on()) tell(static_cast<int64_t>(bytes), tag);
}

void Account::tell(int64_t bytes, const char* tag) noexcept {
  uint64_t used = 0;
  {
    const Guard lock(mutex_);
    used = in_use();
  }
  events_.add({0, context_, bytes, used, allocator_->counts().pooled, tag});
}

void Account::reserve(size_t bytes, const char* tag) {
  ThreadCredit* mine = thread_credit();
  if (mine != nullptr && mine->spend(bytes)) return;
  if (!reserve_common(mine, bytes)) refuse(bytes, tag, "the limit is reached");
}

void Account::unreserve(size_t bytes) noexcept {
  ThreadCredit* mine = thread_credit();
  const bool limited = limit_.load(std::memory_order_relaxed) != 0;
  if (mine == nullptr || limited || !mine->earn(bytes)) unreserve_common(mine, bytes);
}

// Under a limit nobody keeps credit, so that no request is refused for what another thread does not use.
bool Account::reserve_common(ThreadCredit* mine, size_t bytes) noexcept {
  uint64_t bound = 0;
  {
    const Guard lock(mutex_);
    ++visits_;
    const uint64_t limit = limit_.load(std::memory_order_relaxed);
    if (limit != 0) {
      if (bytes > limit) return false;
      if (reserved_ > limit - bytes) recall();
      if (reserved_ > limit - bytes) return false;
    }
    note_peak(mine);
    const uint64_t more = limit == 0 && mine != nullptr && bytes <= ThreadCredit::kChunk ? ThreadCredit::kChunk : 0;
    if (mine != nullptr) mine->set([&](uint64_t credit) { return credit + more; });
    reserved_ += bytes + more;
    if (reserved_ > high_water_) {
      high_water_ = reserved_;
      if (limit == 0) bound = bound_for(high_water_);
    }
  }
  if (bound != 0) allocator_->set_bound(bound);  // takes a lock that a fork takes before this one
  return true;
}

void Account::unreserve_common(ThreadCredit* mine, size_t bytes) noexcept {
  const Guard lock(mutex_);
  ++visits_;
  note_peak(mine);
  reserved_ -= bytes;
  if (mine == nullptr) return;
  const bool keep = bytes <= ThreadCredit::kChunk && limit_.load(std::memory_order_relaxed) == 0;
  uint64_t earned = 0;
  const uint64_t before = mine->set([&](uint64_t credit) {
    return earned = keep ? std::min(credit + bytes, ThreadCredit::kChunk) : credit;
  });
  reserved_ += earned;
  reserved_ -= before;
}

void Account::recall() noexcept {
  note_peak(nullptr);
  for (const auto& each : thread_credits_) {
    reserved_ -= each->set([](uint64_t) { return 0; });
  }
}

// Between two changes of `reserved_`, what is in use never exceeds it less the low marks of all threads.
// Called before each change, so the peak is never too low; it is exact where one thread was active at a time.
void Account::note_peak(const ThreadCredit* mine) noexcept {
  uint64_t most = reserved_;
  if (mine != nullptr) most -= mine->low();
  if (most <= peak_) return;
  most = reserved_;
  for (const auto& each : thread_credits_) most -= each->low();
  peak_ = std::max(peak_, most);
}

void Account::reset_peak() noexcept {
  const Guard lock(mutex_);
  for (const auto& each : thread_credits_) {
    each->set([](uint64_t credit) { return credit; });
  }
  peak_ = in_use();
}

void Account::set_limit(uint64_t bytes) noexcept {
  uint64_t bound = bytes;
  {
    const Guard lock(mutex_);
    limit_.store(bytes);
    if (bytes != 0) recall();
    if (bytes == 0) bound = bound_for(high_water_);
  }
  allocator_->set_bound(bound);
}

void Account::give_up(const mx_block& block) noexcept {
  unreserve(block.bytes);
  if (block.handle != nullptr) hold(static_cast<TagBytes*>(block.handle), -static_cast<int64_t>(block.bytes));
}

void Account::free(const mx_block& block) noexcept {
  if (block.data == nullptr) return;
  give_up(block);
  allocator_->free(block.data, block.bytes);
  if (events_.on()) tell(-static_cast<int64_t>(block.bytes), nullptr);
}

void Account::direct_free(const mx_block& block) noexcept {
  if (block.data == nullptr) return;
  give_up(block);
  allocator_->direct_free(block.data, block.bytes);
  if (events_.on()) tell(-static_cast<int64_t>(block.bytes), nullptr);
}

AllocatorCounts Account::counts() noexcept {
  AllocatorCounts counts = allocator_->counts();
  const Guard lock(mutex_);
  counts.shared += visits_;
  return counts;
}

mx_storage_stats Account::stats() noexcept {
  const AllocatorCounts counts = allocator_->counts();
  mx_storage_stats stats{};
  stats.size = sizeof stats;
  {
    const Guard lock(mutex_);
    note_peak(nullptr);
    stats.bytes_in_use = in_use();
    stats.bytes_peak = peak_;
  }
  stats.bytes_pooled = counts.pooled;
  stats.bytes_limit = limit_.load();
  stats.allocations = counts.allocations + empty_.load();
  stats.pool_hits = counts.hits;
  return stats;
}

uint64_t Account::in_use() const noexcept {
  uint64_t credit = 0;
  for (const auto& each : thread_credits_) credit += each->credit();
  return reserved_ > credit ? reserved_ - credit : 0;  // frees may have come since the first was read
}

// An open-addressed table of pointers: entries are never removed, so reading takes no lock.
TagBytes* Account::holder(const char* tag) noexcept {
  if (tag == nullptr) return nullptr;
  const auto hash = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(tag) * 0x9E3779B97F4A7C15U >> 32);
  for (uint32_t probe = 0; probe < ThreadCredit::kTags; ++probe) {
    TagBytes& slot = holders_[(hash + probe) % ThreadCredit::kTags];
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
