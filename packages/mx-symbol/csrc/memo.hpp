// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "idle.hpp"
#include "program.hpp"

namespace mx::symbol {

// What the bindings of calls share: from what the prepared segments of a program were computed last.  Written by their runs, which
// the engine orders, as all of them write the same arrays.
class Memo {
 public:
  // Of the reads the version counts too, of the others only which arrays they are.
  struct Stamp {
    mx_array* array;
    void* address;
    uint64_t version;
    bool operator==(const Stamp& other) const noexcept {
      return array == other.array && address == other.address && version == other.version;
    }
  };

  explicit Memo(const Program& program)
      : invoke_(program.tables().invoke), stamps_(program.segments().size()), idle_(program) {}
  Memo(const Memo&) = delete;
  Memo& operator=(const Memo&) = delete;
  ~Memo() {
    for (size_t i = 0; i < stamps_.size(); ++i) record(i, {});
  }

  // Bindings to use again.
  IdleBindings& idle() noexcept { return idle_; }
  const std::vector<Stamp>& stamps(size_t segment) const { return stamps_[segment]; }
  // Keeps the arrays, so that no other can take the place of one that was freed.
  void record(size_t segment, std::vector<Stamp> now) noexcept {
    for (const Stamp& stamp : now) invoke_->array_retain(invoke_->self, stamp.array);
    for (const Stamp& stamp : stamps_[segment]) invoke_->array_release(invoke_->self, stamp.array);
    stamps_[segment] = std::move(now);
  }

 private:
  const mx_invoke_api* invoke_;
  std::vector<std::vector<Stamp>> stamps_;  // per segment
  IdleBindings idle_;
};

}  // namespace mx::symbol
