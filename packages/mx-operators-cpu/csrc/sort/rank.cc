// SPDX-License-Identifier: Apache-2.0
#include "sort/rank.hpp"

#include <algorithm>
#include <cstring>

#include "common/clones.hpp"
#include "simd/loops.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kChunk = 512;         // elements whose keys are made at once
constexpr int64_t kRadixFrom = 512;     // elements: below, comparing is faster
constexpr int64_t kWideDigitsFrom = 1 << 16;
constexpr int64_t kHeapLimit = 1024;    // largest k that is kept in a heap
constexpr int64_t kSortedLimit = 48;    // largest k that is kept in order
constexpr int64_t kBlock = 64;          // elements that are passed over together

constexpr uint32_t kSign32 = 0x80000000u;
constexpr uint64_t kSign64 = uint64_t{1} << 63;

// Keys of floating-point numbers: NaN above everything, both zeros the same.
MX_INLINE uint32_t key_of(float x, bool ascending) {
  if (x != x) return ~0u;
  x = (ascending ? x : -x) + 0.0f;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return (bits & kSign32) != 0 ? ~bits : bits | kSign32;
}
MX_INLINE uint64_t key_of(double x, bool ascending) {
  if (x != x) return ~uint64_t{0};
  x = (ascending ? x : -x) + 0.0;
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return (bits & kSign64) != 0 ? ~bits : bits | kSign64;
}
MX_INLINE uint32_t key_of(int32_t x, bool ascending) {
  const uint32_t key = static_cast<uint32_t>(x) ^ kSign32;
  return ascending ? key : ~key;
}
MX_INLINE uint64_t key_of(int64_t x, bool ascending) {
  const uint64_t key = static_cast<uint64_t>(x) ^ kSign64;
  return ascending ? key : ~key;
}

template <class T, class Key>
MX_INLINE void write_keys(Key* keys, const T* values, bool ascending, int64_t n) {
  for (int64_t i = 0; i < n; ++i) keys[i] = key_of(values[i], ascending);
}

template <class Key>
MX_INLINE bool any_below(const Key* keys, Key bound, int64_t n) {
  Key found = 0;
  for (int64_t i = 0; i < n; ++i) found |= keys[i] < bound ? 1 : 0;
  return found != 0;
}

// A key and a position, ordered by both: short keys are packed into one word.
struct Packed {
  uint64_t word;
  Packed() = default;
  Packed(uint32_t key, int64_t position) : word(uint64_t{key} << 32 | static_cast<uint64_t>(position)) {}
  int64_t position() const { return static_cast<int64_t>(word & 0xffffffffu); }
  uint64_t key() const { return word >> 32; }
  bool operator<(const Packed& other) const { return word < other.word; }
  static constexpr int kKeyBits = 32;
};
struct Pair {
  uint64_t first;
  int64_t second;
  Pair() = default;
  Pair(uint64_t key, int64_t position) : first(key), second(position) {}
  int64_t position() const { return second; }
  uint64_t key() const { return first; }
  bool operator<(const Pair& other) const {
    return first != other.first ? first < other.first : second < other.second;
  }
  static constexpr int kKeyBits = 64;
};

// Stable, by the keys alone: entries must come in the order of their positions.
template <int Digit, class Entry>
void radix_sort(Entry* entries, Entry* spare, int64_t n) {
  constexpr int kPasses = (Entry::kKeyBits + Digit - 1) / Digit;
  constexpr size_t kBuckets = size_t{1} << Digit;
  uint32_t counts[kPasses][kBuckets];
  std::memset(counts, 0, sizeof counts);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t key = entries[i].key();
    for (int pass = 0; pass < kPasses; ++pass) ++counts[pass][key >> (pass * Digit) & (kBuckets - 1)];
  }
  Entry *from = entries, *to = spare;
  for (int pass = 0; pass < kPasses; ++pass) {
    uint32_t* count = counts[pass];
    if (count[from[0].key() >> (pass * Digit) & (kBuckets - 1)] == static_cast<uint32_t>(n)) continue;
    uint32_t start = 0;
    for (size_t b = 0; b < kBuckets; ++b) {
      const uint32_t size = count[b];
      count[b] = start;
      start += size;
    }
    for (int64_t i = 0; i < n; ++i) to[count[from[i].key() >> (pass * Digit) & (kBuckets - 1)]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries) std::copy_n(from, n, entries);
}

// The keys of elements [first, first + n).
template <class T, class Key>
void make_keys(int dtype, const char* from, int64_t stride, int64_t first, int64_t n, bool ascending, Key* keys) {
  const auto item = static_cast<int64_t>(item_size(dtype));
  const char* data = from + first * stride * item;
  alignas(64) char gathered[kChunk * 8];
  if (stride != 1) {
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(gathered + i * item, data + i * stride * item, static_cast<size_t>(item));
    data = gathered;
  }
  T values[kChunk];
  loops().load[dtype][ComputeOf<T>::code](values, data, static_cast<size_t>(n));
  best_clone<write_keys<T, Key>>(keys, values, ascending, n);
  // Loaded as int64, large unsigned numbers have come out negative.
  if (dtype == MX_UINT64)
    for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<Key>(keys[i] ^ static_cast<Key>(kSign64));
}

template <class Visit>
void in_chunks(int64_t n, const Visit& visit) {
  for (int64_t first = 0; first < n; first += kChunk) visit(first, std::min(kChunk, n - first));
}

// The k best of what is offered in the order of positions: in order, or many in a heap with the worst at the front.
template <class Entry, class Key>
class Best {
 public:
  Best(Entry* entries, int64_t k) : entries_(entries), k_(k), sorted_(k <= kSortedLimit) {}
  bool full() const { return held_ == k_; }
  Key worst() const { return static_cast<Key>(entries_[sorted_ ? k_ - 1 : 0].key()); }
  void offer(Key key, int64_t position) {
    if (full() && key >= worst()) return;
    const Entry made(key, position);
    if (sorted_) {
      int64_t at = full() ? k_ - 1 : held_++;
      for (; at > 0 && made < entries_[at - 1]; --at) entries_[at] = entries_[at - 1];
      entries_[at] = made;
      return;
    }
    if (full()) std::pop_heap(entries_, entries_ + held_--);
    entries_[held_++] = made;
    std::push_heap(entries_, entries_ + held_);
  }
  void sort() {
    if (!sorted_) std::sort_heap(entries_, entries_ + k_);
  }

 private:
  Entry* const entries_;
  const int64_t k_;
  const bool sorted_;
  int64_t held_ = 0;
};

template <class T, class Key, class Entry>
void rank_as(int dtype, const char* from, int64_t stride, int64_t n, int64_t k, bool ascending, char* memory,
             int64_t* positions) {
  auto* entries = reinterpret_cast<Entry*>(memory);
  Key keys[kChunk];
  if (k < kHeapLimit && k < n / 8) {
    Best<Entry, Key> best(entries, k);
    in_chunks(n, [&](int64_t first, int64_t some) {
      make_keys<T, Key>(dtype, from, stride, first, some, ascending, keys);
      for (int64_t block = 0; block < some; block += kBlock) {
        const int64_t end = std::min(block + kBlock, some);
        if (best.full() && !best_clone<any_below<Key>>(keys + block, best.worst(), end - block)) continue;
        for (int64_t i = block; i < end; ++i) best.offer(keys[i], first + i);
      }
    });
    best.sort();
  } else {
    in_chunks(n, [&](int64_t first, int64_t some) {
      make_keys<T, Key>(dtype, from, stride, first, some, ascending, keys);
      for (int64_t i = 0; i < some; ++i) entries[first + i] = Entry(keys[i], first + i);
    });
    int64_t size = n;
    if (k < n / 2) {
      std::nth_element(entries, entries + k, entries + n);
      size = k;
    }
    if (size < kRadixFrom || size < n) {
      std::sort(entries, entries + size);
    } else if (size < kWideDigitsFrom) {
      radix_sort<8>(entries, entries + n, size);
    } else {
      radix_sort<11>(entries, entries + n, size);
    }
  }
  for (int64_t i = 0; i < k; ++i) positions[i] = entries[i].position();
}

}  // namespace

size_t rank_memory(int dtype, int64_t n) {
  const Compute type = compute_of(dtype);
  return 2 * static_cast<size_t>(n) * (type == F32 || type == I32 ? sizeof(Packed) : sizeof(Pair));
}

void rank(int dtype, const char* from, int64_t stride, int64_t n, int64_t k, bool ascending, char* memory,
          int64_t* positions) {
  if (k == 0) return;
  switch (compute_of(dtype)) {
    case F32:
      return rank_as<float, uint32_t, Packed>(dtype, from, stride, n, k, ascending, memory, positions);
    case I32:
      return rank_as<int32_t, uint32_t, Packed>(dtype, from, stride, n, k, ascending, memory, positions);
    case F64:
      return rank_as<double, uint64_t, Pair>(dtype, from, stride, n, k, ascending, memory, positions);
    default:
      return rank_as<int64_t, uint64_t, Pair>(dtype, from, stride, n, k, ascending, memory, positions);
  }
}

}  // namespace mx::cpu
