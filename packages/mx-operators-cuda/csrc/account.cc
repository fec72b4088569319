// SPDX-License-Identifier: Apache-2.0
#include "account.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "driver.hpp"
#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

using Guard = std::lock_guard<std::mutex>;
constexpr uint64_t kLargestBlock = uint64_t{1} << 46;
uintptr_t address(const void* data) noexcept { return reinterpret_cast<uintptr_t>(data); }

}  // namespace

bool begins_in(const std::map<uintptr_t, size_t>& pieces, uintptr_t data, size_t bytes) noexcept {
  const auto found = pieces.lower_bound(data);
  return found != pieces.end() && found->first - data < bytes;
}

bool holds(const std::map<uintptr_t, size_t>& pieces, uintptr_t data) noexcept {
  const auto found = pieces.upper_bound(data);
  return found != pieces.begin() && data - std::prev(found)->first < std::prev(found)->second;
}

Account::Account(mx_context context, std::unique_ptr<Pool> pool)
    : context_(context), name_(name_of(context)), pool_(std::move(pool)) {}

void Account::alloc(size_t bytes, const char* tag, mx_block* block) {
  *block = {nullptr, bytes, context_, nullptr};
  const Guard lock(mutex_);
  ++allocations_;
  if (bytes == 0) return;
  if (bytes > kLargestBlock) refuse(bytes, tag, "no device has that much");
  if (limit_ != 0 && (bytes > limit_ || used_ > limit_ - bytes)) {
    refuse(bytes, tag, "the limit is reached");
  }
  Holder* holder = nullptr;
  if (tag != nullptr) holder = &holders_.try_emplace(tag, Holder{tag}).first->second;
  block->data = find(bytes);
  if (block->data == nullptr) refuse(bytes, tag, "the device has no more");
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  if (holder != nullptr) {
    holder->bytes += bytes;
    block->handle = holder;
  }
}

// What is pooled goes back to the device before it is said to be full, and before more is taken than
// the limit allows for blocks and pool together.
void* Account::find(size_t bytes) {
  bool reused = false;
  if (limit_ != 0 && used_ + pool_->pooled() + bytes > limit_) pool_->release();
  void* data = take(bytes, &reused);
  if (data == nullptr) {
    pool_->release();
    data = take(bytes, &reused);
  }
  hits_ += reused ? 1 : 0;
  return data;
}

void Account::free(const mx_block& block, bool direct) noexcept {
  if (block.data == nullptr) return;
  const Guard lock(mutex_);
  used_ -= block.bytes;
  if (block.handle != nullptr) static_cast<Holder*>(block.handle)->bytes -= block.bytes;
  if (!reserves_.empty() && keep_reserved(block.data, block.bytes)) return;
  if (direct) {
    pool_->direct_free(block.data);
  } else {
    pool_->free(block.data);
  }
}

void* Account::take(size_t bytes, bool* reused) {
  for (const auto& reserve : reserves_) {
    if (reserve->state != Reserve::kCaptures) continue;
    void* data = reserve->pool->alloc(bytes, reused);
    if (data != nullptr) reserve->used[address(data)] = bytes;
    return data;
  }
  return pool_->alloc(bytes, reused);
}

// True where freed memory is not the account's to pool.
bool Account::keep_reserved(void* data, size_t bytes) noexcept {
  for (auto at = reserves_.begin(); at != reserves_.end(); ++at) {
    Reserve& reserve = **at;
    if (reserve.used.erase(address(data)) != 0) {
      if (reserve.state != Reserve::kGone) {
        reserve.pool->free(data);
      } else {
        reserve.pool->direct_free(data);
        if (reserve.used.empty()) reserves_.erase(at);
      }
      return true;
    }
    const bool needed = reserve.state == Reserve::kCaptures ||
                        (reserve.state == Reserve::kRuns && begins_in(reserve.touched, address(data), bytes));
    if (needed) {
      reserve.kept[address(data)] = bytes;
      return true;
    }
  }
  return false;
}

Reserve* Account::open_reserve(std::unique_ptr<Pool> pool) {
  const Guard lock(mutex_);
  reserves_.push_back(std::make_unique<Reserve>());
  reserves_.back()->pool = std::move(pool);
  return reserves_.back().get();
}

bool Account::reserved(const Reserve* reserve, const void* data) {
  const Guard lock(mutex_);
  return holds(reserve->used, address(data));
}

void Account::close_reserve(Reserve* reserve, std::map<uintptr_t, size_t> touched) {
  const Guard lock(mutex_);
  reserve->state = Reserve::kRuns;
  reserve->touched = std::move(touched);
}

void Account::end_reserve(Reserve* reserve) noexcept {
  const Guard lock(mutex_);
  reserve->state = Reserve::kGone;
  reserve->pool->release();
  for (const auto& [kept, bytes] : std::exchange(reserve->kept, {})) {
    void* data = reinterpret_cast<void*>(kept);
    if (!keep_reserved(data, bytes)) pool_->free(data);
  }
  const auto same = [reserve](const auto& each) { return each.get() == reserve; };
  if (reserve->used.empty()) reserves_.erase(std::find_if(reserves_.begin(), reserves_.end(), same));
}

void Account::release() noexcept {
  const Guard lock(mutex_);
  pool_->release();
}

mx_storage_stats Account::stats() noexcept {
  const Guard lock(mutex_);
  mx_storage_stats stats{};
  stats.size = sizeof stats;
  stats.bytes_in_use = used_;
  stats.bytes_pooled = pool_->pooled();
  stats.bytes_peak = peak_;
  stats.bytes_limit = limit_;
  stats.allocations = allocations_;
  stats.pool_hits = hits_;
  return stats;
}

void Account::reset_peak() noexcept {
  const Guard lock(mutex_);
  peak_ = used_;
}

void Account::set_limit(uint64_t bytes) noexcept {
  const Guard lock(mutex_);
  limit_ = bytes;
  if (limit_ != 0 && used_ + pool_->pooled() > limit_) pool_->release();
}

std::map<std::string, uint64_t> Account::holders() {
  const Guard lock(mutex_);
  return by_tag();
}

// The same text may come from several libraries under several addresses.
std::map<std::string, uint64_t> Account::by_tag() const {
  std::map<std::string, uint64_t> held;
  for (const auto& [tag, holder] : holders_) held[tag] += holder.bytes;
  return held;
}

void Account::refuse(size_t bytes, const char* tag, const char* why) const {
  std::string text = "[storage] " + name_ + ": cannot allocate " + std::to_string(bytes) + " bytes";
  if (tag != nullptr) text += std::string(" for ") + tag;
  text += std::string(", ") + why + ": " + std::to_string(used_) + " in use, " +
          std::to_string(pool_->pooled()) + " pooled, limit ";
  text += limit_ == 0 ? "none" : std::to_string(limit_);
  const auto held = by_tag();
  const auto most = std::max_element(held.begin(), held.end(), [](const auto& a, const auto& b) {
    return a.second < b.second;
  });
  if (most != held.end() && most->second > 0) {
    text += "; most is held by " + most->first + " (" + std::to_string(most->second) + ")";
  }
  throw Error(MX_ERROR_MEMORY, text);
}

}  // namespace mx::cuda
