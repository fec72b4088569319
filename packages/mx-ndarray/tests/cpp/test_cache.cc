// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <random>

#include "kernels.hpp"
#include "operator.hpp"

using namespace kernels;
using mx::nd::SignatureCache;

namespace {

SignatureCache::Key key_of(const std::vector<uint64_t>& words) {
  SignatureCache::Key key;
  key.clear();
  for (const uint64_t word : words) key.add(word);
  return key;
}

void finds_what_was_inserted() {
  SignatureCache cache;
  std::map<std::vector<uint64_t>, Call*> known;
  std::mt19937_64 random(1);
  for (int i = 0; i < 900; ++i) {
    std::vector<uint64_t> words(random() % 6);
    for (uint64_t& word : words) word = random() % 4;
    Call* found = cache.find(key_of(words));
    const auto expected = known.find(words);
    CHECK(found == (expected == known.end() ? nullptr : expected->second));
    if (found != nullptr) continue;
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
    CHECK(cache.find(key_of({i})) != nullptr);
  }
}

}  // namespace

int main() {
  fakes::Loader loader;
  finds_what_was_inserted();
  is_bounded();
}
