// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <random>
#include <thread>

#include "kernels.hpp"
#include "operator.hpp"

using namespace kernels;
using mx::nd::CacheKey;
using mx::nd::Counted;
using mx::nd::KeyedCache;
using mx::nd::SignatureCache;

namespace {

CacheKey key_of(const std::vector<uint64_t>& words) {
  CacheKey key;
  for (const uint64_t word : words) key.add(word);
  return key;
}

std::atomic<int> alive{0};

// Says whether it was freed under a reader.
struct Number final : Counted {
  explicit Number(uint64_t value) : value(value) { alive.fetch_add(1); }
  ~Number() {
    value = ~0ull;
    alive.fetch_sub(1);
  }
  void retain() noexcept { add_reference(); }
  void release() noexcept {
    if (drop_reference()) delete this;
  }
  uint64_t value;
};

void finds_what_was_inserted() {
  SignatureCache cache;
  std::map<std::vector<uint64_t>, Call*> known;
  std::mt19937_64 random(1);
  for (int i = 0; i < 900; ++i) {
    std::vector<uint64_t> words(random() % 6);
    for (uint64_t& word : words) word = random() % 4;
    Ref<Call> found = cache.find(key_of(words));
    const auto expected = known.find(words);
    CHECK(found.get() == (expected == known.end() ? nullptr : expected->second));
    if (found) continue;
    Ref<Call> made = kernels::call(add, 2, 1);
    known[words] = made.get();
    cache.insert(key_of(words), std::move(made));
  }
  CHECK(cache.size() == known.size());
}

void is_bounded() {
  SignatureCache cache;
  for (uint64_t i = 0; i < 3 * SignatureCache::kLimit; ++i) {
    cache.insert(key_of({i}), kernels::call(add, 2, 1));
    CHECK(cache.size() <= SignatureCache::kLimit);
    CHECK(cache.find(key_of({i})));
  }
}

void keeps_the_first_value_of_a_key() {
  KeyedCache<Number> cache(4);
  const Ref<Number> first = cache.insert(key_of({1}), Ref<Number>::adopt(new Number(1)));
  const Ref<Number> second = cache.insert(key_of({1}), Ref<Number>::adopt(new Number(2)));
  CHECK(first.get() == second.get() && cache.size() == 1);
}

void values_outlive_the_cache_that_drops_them() {
  KeyedCache<Number> cache(2);
  const Ref<Number> kept = cache.insert(key_of({1}), Ref<Number>::adopt(new Number(1)));
  cache.clear();
  CHECK(!cache.find(key_of({1})) && kept->value == 1);
}

// Threads that look up, insert and start afresh beside each other see whole entries only.
void threads_share_it(int n_threads) {
  {
    KeyedCache<Number> cache(32);
    std::vector<std::thread> threads;
    for (int t = 0; t < n_threads; ++t) {
      threads.emplace_back([&cache, t] {
        std::mt19937_64 random(static_cast<uint64_t>(t));
        for (int i = 0; i < 20'000; ++i) {
          const uint64_t n = random() % 100;
          const CacheKey key = key_of({n, n * n});
          Ref<Number> found = cache.find(key);
          if (!found) found = cache.insert(key, Ref<Number>::adopt(new Number(n)));
          CHECK(found->value == n);
          if (i % 5'000 == 4'999) cache.clear();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    cache.clear();
  }
  mx::nd::hazard::retire(new int(0), [](void* object) noexcept { delete static_cast<int*>(object); });
  CHECK(alive.load() == 0);
}

}  // namespace

int main() {
  fakes::Loader loader;
  finds_what_was_inserted();
  is_bounded();
  keeps_the_first_value_of_a_key();
  values_outlive_the_cache_that_drops_them();
  for (const int n : {1, 2, 3, 7}) threads_share_it(n);
}
