// SPDX-License-Identifier: Apache-2.0
#include "random.hpp"

#include <pthread.h>

#include <tuple>

#include "mx_core/failure.hpp"

namespace mx::storage {
namespace {

// One lock for all streams of the process: it is held for a few instructions per operator, and a
// fork has to take only this one.  Never destroyed.
std::mutex& mutex() noexcept {
  static auto* the_mutex = new std::mutex;
  return *the_mutex;
}

[[maybe_unused]] const int installed =
    ::pthread_atfork([] { mutex().lock(); }, [] { mutex().unlock(); }, [] { mutex().unlock(); });

using Guard = std::lock_guard<std::mutex>;

// A bijection of 64-bit numbers without visible structure, so that near seeds have far keys.
// Source: Stafford's variant 13 of MurmurHash3's finalizer, as in SplitMix64 (Steele, Lea, Flood,
// OOPSLA 2014).
uint64_t mix(uint64_t z) noexcept {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

uint64_t key_of(uint64_t seed, mx_context context) noexcept {
  const auto code = static_cast<uint64_t>(static_cast<uint32_t>(context.type)) << 32 |
                    static_cast<uint32_t>(context.id);
  return mix(mix(seed) ^ code);
}

Random& of(void* self) noexcept { return *static_cast<Random*>(self); }

}  // namespace

Random::Random() {
  mx_resource_api& t = table_;
  t.head = {sizeof t, MX_RESOURCE_MAJOR, MX_RESOURCE_MINOR};
  t.self = this;
  t.reserve_random = [](void* self, mx_context context, uint64_t blocks, uint64_t* key,
                        uint64_t* offset) {
    std::tie(*key, *offset) = of(self).reserve(context, blocks);
  };
  t.seed = [](void* self, mx_context context, uint64_t seed) { of(self).seed(context, seed); };
  t.seed_all = [](void* self, uint64_t seed) { of(self).seed_all(seed); };
}

std::pair<uint64_t, uint64_t> Random::reserve(mx_context context, uint64_t blocks) {
  const Guard lock(mutex());
  Stream& s = stream(context);
  const uint64_t first = s.offset;
  s.offset += blocks;
  return {s.key, first};
}

void Random::seed(mx_context context, uint64_t seed) {
  const Guard lock(mutex());
  stream(context) = {mix(seed), 0};
}

void Random::seed_all(uint64_t seed) {
  const Guard lock(mutex());
  seed_ = seed;
  streams_.clear();
}

Random::Stream& Random::stream(mx_context context) {
  const auto [found, is_new] =
      streams_.try_emplace({context.type, context.id}, Stream{key_of(seed_, context), 0});
  return found->second;
}

}  // namespace mx::storage
