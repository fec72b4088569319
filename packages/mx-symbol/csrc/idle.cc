// SPDX-License-Identifier: Apache-2.0
#include "idle.hpp"

#include <algorithm>

#include "binding.hpp"

namespace mx::symbol {
namespace {

// Of one part: as many as calls that are not waited for take, and what they keep of large programs.
constexpr size_t kMost = 32;
constexpr size_t kMostBytes = size_t{1} << 18;

size_t kept_of(const Program& program) {
  const size_t bytes = program.tensors().size() * sizeof(mx_tensor);
  return std::clamp<size_t>(kMostBytes / std::max<size_t>(bytes, 1), 1, kMost);
}

}  // namespace

IdleBindings::IdleBindings(const Program& program)
    : per_part_(kept_of(program)), places_(per_part_ * program.parts().size()) {}

IdleBindings::~IdleBindings() {
  for (std::atomic<Binding*>& place : places_) delete place.load(std::memory_order_acquire);
}

std::unique_ptr<Binding> IdleBindings::take(uint32_t part) noexcept {
  const size_t first = part * per_part_;
  for (size_t i = first; i < first + per_part_; ++i) {
    if (places_[i].load(std::memory_order_relaxed) == nullptr) continue;
    Binding* found = places_[i].exchange(nullptr, std::memory_order_acquire);
    if (found != nullptr) return std::unique_ptr<Binding>(found);
  }
  return nullptr;
}

void IdleBindings::give(uint32_t part, std::unique_ptr<Binding> binding) noexcept {
  const size_t first = part * per_part_;
  for (size_t i = first; i < first + per_part_; ++i) {
    Binding* nothing = nullptr;
    if (places_[i].load(std::memory_order_relaxed) != nullptr) continue;
    if (places_[i].compare_exchange_strong(nothing, binding.get(), std::memory_order_release)) {
      binding.release();
      return;
    }
  }
}

}  // namespace mx::symbol
