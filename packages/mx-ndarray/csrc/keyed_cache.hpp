// SPDX-License-Identifier: Apache-2.0
//
// A bounded cache from sequences of words to reference-counted values.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "hazard.hpp"
#include "ref.hpp"

namespace mx::nd {

// What a cache is asked for.  Equal means equal words: two different questions must differ in one.
class CacheKey {
 public:
  void add(uint64_t word) {
    words_.push_back(word);
    hash_ = (hash_ ^ word) * 0x9E3779B97F4A7C15ull;
    hash_ ^= hash_ >> 29;
  }
  void clear() noexcept {
    words_.clear();
    hash_ = kSeed;
  }
  uint64_t hash() const noexcept { return hash_; }
  const std::vector<uint64_t>& words() const noexcept { return words_; }

 private:
  static constexpr uint64_t kSeed = 0x243F6A8885A308D3ull;
  std::vector<uint64_t> words_;
  uint64_t hash_ = kSeed;
};

// Threads: any.  A look-up takes no lock and runs no code of the values; an insertion locks.  Values
// are dropped without a lock, so that their destructors may do what they like.
template <class Value>
class KeyedCache {
 public:
  // A cache that holds `limit` entries starts afresh.
  explicit KeyedCache(size_t limit) : limit_(limit), current_(new Generation) {}
  KeyedCache(const KeyedCache&) = delete;
  KeyedCache& operator=(const KeyedCache&) = delete;
  ~KeyedCache() { delete current_.load(std::memory_order_relaxed); }

  // Null when there is none.
  Ref<Value> find(const CacheKey& key) const noexcept {
    const Protected<Generation> generation(current_);
    const Entry* entry = generation->table.load(std::memory_order_acquire)->find(key);
    return entry == nullptr ? Ref<Value>() : entry->value;
  }

  // What the cache holds for the key from now on: `value`, or what another thread brought first.
  Ref<Value> insert(const CacheKey& key, Ref<Value> value) {
    if (size() >= limit_) clear();
    std::lock_guard<std::mutex> lock(mutex_);
    Generation* generation = current_.load(std::memory_order_relaxed);
    if (const Entry* known = generation->table.load(std::memory_order_relaxed)->find(key)) {
      return known->value;
    }
    generation->add(key, value);
    return value;
  }

  size_t size() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return current_.load(std::memory_order_relaxed)->entries.size();
  }

  void clear() {
    Generation* old = nullptr;
    {
      auto fresh = std::make_unique<Generation>();
      std::lock_guard<std::mutex> lock(mutex_);
      old = current_.exchange(fresh.release(), std::memory_order_seq_cst);
    }
    hazard::retire(old, [](void* object) noexcept { delete static_cast<Generation*>(object); });
  }

 private:
  struct Entry {
    uint64_t hash;
    std::vector<uint64_t> words;
    Ref<Value> value;
  };

  // Open addressing, at most half full; entries appear and never vanish.
  struct Table {
    explicit Table(size_t capacity)
        : mask(capacity - 1), slots(new std::atomic<const Entry*>[capacity]) {
      for (size_t i = 0; i < capacity; ++i) slots[i].store(nullptr, std::memory_order_relaxed);
    }
    const Entry* find(const CacheKey& key) const noexcept {
      for (size_t i = key.hash() & mask;; i = (i + 1) & mask) {
        const Entry* entry = slots[i].load(std::memory_order_acquire);
        if (entry == nullptr) return nullptr;
        if (entry->hash == key.hash() && entry->words == key.words()) return entry;
      }
    }
    void add(const Entry* entry) noexcept {
      size_t i = entry->hash & mask;
      while (slots[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) & mask;
      slots[i].store(entry, std::memory_order_release);
    }
    const size_t mask;
    const std::unique_ptr<std::atomic<const Entry*>[]> slots;
  };

  // Entries and the tables that find them.  Tables that became too small stay with it: a reader may be
  // in one, and together they are smaller than the last.
  struct Generation {
    Generation() {
      tables.push_back(std::make_unique<Table>(8));
      table.store(tables.back().get(), std::memory_order_relaxed);
    }
    // The caller holds the cache's mutex.
    void add(const CacheKey& key, Ref<Value> value) {
      entries.push_back(
          std::make_unique<Entry>(Entry{key.hash(), key.words(), std::move(value)}));
      Table* now = table.load(std::memory_order_relaxed);
      if (2 * entries.size() <= now->mask + 1) {
        now->add(entries.back().get());
        return;
      }
      tables.push_back(std::make_unique<Table>(2 * (now->mask + 1)));
      for (const auto& entry : entries) tables.back()->add(entry.get());
      table.store(tables.back().get(), std::memory_order_release);
    }
    std::atomic<Table*> table{nullptr};
    std::vector<std::unique_ptr<Entry>> entries;  // guarded by the cache's mutex
    std::vector<std::unique_ptr<Table>> tables;   // the same
  };

  const size_t limit_;
  mutable std::mutex mutex_;
  std::atomic<Generation*> current_;
};

}  // namespace mx::nd
