// SPDX-License-Identifier: Apache-2.0
//
// Joining: idle variables become parts of a whole, which everything that comes later uses in their place.
#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "lock_order.hpp"
#include "refusal.hpp"
#include "variables.hpp"

namespace mx::engine {
namespace {

// A failure stays with the variable that has it.  The variable is locked.
bool may_be_joined(const Variable* variable) noexcept {
  return variable->idle(true) && !variable->dying && !variable->deleted && variable->poison == nullptr;
}

// The same of one that is not locked: for now.
bool is_free_now(Variable* variable) noexcept { return may_be_joined(Locked(variable).get()); }

bool has_fewer_parts(const Variable* a, const Variable* b) noexcept { return a->parts < b->parts; }

struct FreeBlock {
  void operator()(Block* block) const noexcept { free_block(block); }
};
// Of variables that are to be parts: they then end without memory.
using Deletions = std::vector<std::unique_ptr<Block, FreeBlock>>;

Deletions deletions_of(const std::vector<Variable*>& variables) {
  Deletions made;
  made.reserve(variables.size());
  for (Variable* variable : variables) made.emplace_back(Variables::make_deletion(variable));
  return made;
}

// The variables are locked.  A fork in between leaves a child with some of them joined, which is sound.
void make_parts(const std::vector<Variable*>& variables, Deletions& deletions, Variable* whole) noexcept {
  uint64_t version = 0;  // a new one for each of them
  for (const Variable* variable : variables) version = std::max(version, variable->version + 1);
  whole->version = version;
  whole->parts += static_cast<uint32_t>(variables.size() - (whole->parts == 0 ? 0 : 1));
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i] == whole) continue;
    if (variables[i]->parts == 0) variables[i]->deletion = deletions[i].release();  // a whole ends with its parts
    variables[i]->whole.store(whole, std::memory_order_release);
  }
}

}  // namespace

std::vector<Variable*> wholes_of(Variable* const* variables, uint32_t n) {
  std::vector<Variable*> found(n);
  std::transform(variables, variables + n, found.begin(), &whole_of);
  std::sort(found.begin(), found.end(), std::less<>());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

int32_t Variables::join(Variable* const* variables, uint32_t n, Variable** joint, mx_error* error) noexcept {
  if (n == 0) return set_error(error, MX_ERROR_VALUE, "[join_variables] expected at least one variable, got none");
  try {
    for (;;) {
      const std::vector<Variable*> all = wholes_of(variables, n);
      *joint = all[0];
      if (all.size() == 1) return MX_OK;
      if (!std::all_of(all.begin(), all.end(), &is_free_now)) return MX_TIMEOUT;
      const LockOrder order(nullptr, 0, all.data(), static_cast<uint32_t>(all.size()));
      Deletions deletions = deletions_of(all);
      auto made = std::make_unique<Variable>();
      made->forks = lost_forks_;
      if (!order.lock()) continue;  // one of them was joined meanwhile
      const bool joins = std::all_of(all.begin(), all.end(), &may_be_joined);
      if (joins) {
        // The largest whole takes the others in: what is joined again and again stays near.
        Variable* largest = *std::max_element(all.begin(), all.end(), &has_fewer_parts);
        *joint = largest->parts != 0 ? largest : made.release();
        make_parts(all, deletions, *joint);
      }
      order.unlock();
      return joins ? MX_OK : MX_TIMEOUT;
    }
  } catch (const std::bad_alloc&) {
    return set_error(error, MX_ERROR_MEMORY, "[join_variables] out of host memory");
  }
}

}  // namespace mx::engine
