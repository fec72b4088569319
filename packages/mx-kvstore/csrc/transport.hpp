// SPDX-License-Identifier: Apache-2.0
//
// What workers agree and exchange through: memory that they share, or connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "shared_sums.hpp"

namespace mx::kv {

// Threads: one.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // Numbers that a worker may tell at once.
  virtual size_t numbers() const noexcept = 0;
  // Tells the others numbers: all workers as many.
  virtual void tell(const std::vector<int64_t>& numbers) = 0;
  // Whether all others have told theirs, after at most so many nanoseconds.  False at once when it has failed.
  virtual bool told(int64_t nanoseconds) = 0;
  // The least of what the workers have told, number by number.
  virtual void least(std::vector<int64_t>& numbers) const = 0;
  // As `exchange` of shared_sums.hpp.
  virtual bool exchange(const std::vector<Item>& items, const std::function<void(size_t)>& done) = 0;
  // Whether nothing passes any more.
  virtual bool failed() const noexcept = 0;
};

// Through a window.
class OverWindow final : public Transport {
 public:
  explicit OverWindow(Window& window) : window_(window) {}

  size_t numbers() const noexcept override { return Window::kNumbers; }
  void tell(const std::vector<int64_t>& numbers) override { window_.tell(numbers); }
  bool told(int64_t nanoseconds) override { return window_.told(nanoseconds); }
  void least(std::vector<int64_t>& numbers) const override { window_.least(numbers); }
  bool exchange(const std::vector<Item>& items, const std::function<void(size_t)>& done) override {
    return kv::exchange(window_, items, done);
  }
  bool failed() const noexcept override { return window_.stopped(); }

 private:
  Window& window_;
};

}  // namespace mx::kv
