// SPDX-License-Identifier: Apache-2.0
//
// What the debugging engine knows about everything pending: it finds writes that a Python
// operation did not declare, and waits that would never end because the program waits for itself.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "variable.hpp"

namespace mx::engine {

// Threads: any.  It is slow, which is why only the debugging engine has one.
class Monitor {
 public:
  void born(const Variable* variable);
  void died(const Variable* variable);
  // The operation takes its places now; called while its variables are locked.
  // Without memory it knows nothing of the operation.
  void pushed(const Block* block) noexcept;
  void finished(const Block* block);

  // Why the calling thread must not push what writes these variables; empty when it may.
  std::string undeclared_write(Variable* const* writes, uint32_t n);
  // Why the calling thread must not wait for the variable.  When the answer is empty it counts as
  // waiting until `wait_ended`.
  std::string wait_begins(const Variable* variable, bool for_write);
  void wait_ended();

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  // In the child of a fork: nothing of the parent's is pending there.
  void forget();

 private:
  void forget(const Block* block) noexcept;  // mutex_ is held

  struct Use {
    const Block* block;
    uint64_t number;
    bool write;
  };
  struct Known {
    uint64_t creator = 0;   // number of the operation that made it; 0: none
    std::vector<Use> uses;  // pending, in push order
  };
  struct Pending {
    uint64_t number = 0;  // in push order
    std::string title;
    std::vector<std::pair<const Variable*, bool>> places;
    // What its thread waits for, with what was pushed until then.
    const Variable* awaited = nullptr;
    bool for_write = false;
    uint64_t until = 0;
  };
  struct Search {
    std::vector<const Block*> own, seen, path;
  };

  bool leads_back(const Variable* variable, bool for_write, uint64_t until, Search& search);
  bool leads_back(const Block* block, Search& search);
  std::string tell(const Search& search) const;

  std::mutex mutex_;  // guards everything below
  uint64_t last_number_ = 0;
  std::unordered_map<const Variable*, Known> variables_;
  std::unordered_map<const Block*, Pending> pending_;
};

}  // namespace mx::engine
