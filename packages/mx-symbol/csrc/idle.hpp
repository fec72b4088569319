// SPDX-License-Identifier: Apache-2.0
//
// Bindings between two calls: one that is not pending any more serves the next call of its part.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mx::symbol {

class Binding;
class Program;

// Threads: any, also one that gives while another one takes.  Nobody waits, so that a fork never finds a lock held.
class IdleBindings {
 public:
  explicit IdleBindings(const Program& program);
  IdleBindings(const IdleBindings&) = delete;
  IdleBindings& operator=(const IdleBindings&) = delete;
  ~IdleBindings();

  // One of a part, or NULL.
  std::unique_ptr<Binding> take(uint32_t part) noexcept;
  // Keeps one that has no arrays, or drops it where enough are kept.
  void give(uint32_t part, std::unique_ptr<Binding> binding) noexcept;

 private:
  size_t per_part_;
  std::vector<std::atomic<Binding*>> places_;  // per part; own what they hold
};

}  // namespace mx::symbol
