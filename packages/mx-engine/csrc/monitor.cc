// SPDX-License-Identifier: Apache-2.0
#include "monitor.hpp"

#include <algorithm>

#include "frame.hpp"

namespace mx::engine {
namespace {

using Guard = std::lock_guard<std::mutex>;

std::string title_of(const Block& block) {
  std::string text = std::string("'") + (block.name == nullptr ? "unnamed" : block.name) + "'";
  if (block.origin != nullptr) text += std::string(" (pushed at ") + block.origin + ")";
  return text;
}

bool among(const std::vector<const Block*>& list, const Block* block) {
  return std::find(list.begin(), list.end(), block) != list.end();
}

}  // namespace

void Monitor::born(const Variable* variable) {
  const Guard guard(mutex_);
  Known& known = variables_[variable];
  known = {};
  if (const Frame* frame = Frame::top()) {
    const auto maker = pending_.find(&frame->block());
    if (maker != pending_.end()) known.creator = maker->second.number;
  }
}

void Monitor::died(const Variable* variable) {
  const Guard guard(mutex_);
  variables_.erase(variable);
}

void Monitor::pushed(const Block* block) noexcept {
  const Guard guard(mutex_);
  try {
    Pending& pending = pending_[block];
    pending = {};
    pending.number = ++last_number_;
    pending.title = title_of(*block);
    for (uint32_t i = 0; i < block->n_entries; ++i) {
      const Entry& entry = block->entries[i];
      pending.places.emplace_back(entry.variable, entry.write);
      variables_[entry.variable].uses.push_back({block, pending.number, entry.write});
    }
  } catch (const std::bad_alloc&) {
    forget(block);
  }
}

void Monitor::finished(const Block* block) {
  const Guard guard(mutex_);
  forget(block);
}

void Monitor::forget(const Block* block) noexcept {
  const auto found = pending_.find(block);
  if (found == pending_.end()) return;
  for (const auto& place : found->second.places) {
    const auto known = variables_.find(place.first);
    if (known == variables_.end()) continue;
    auto& uses = known->second.uses;
    uses.erase(std::remove_if(uses.begin(), uses.end(),
                              [block](const Use& use) { return use.block == block; }),
               uses.end());
  }
  pending_.erase(found);
}

std::string Monitor::undeclared_write(Variable* const* writes, uint32_t n) {
  const Guard guard(mutex_);
  const Frame* python = Frame::top();
  while (python != nullptr && (python->block().flags & MX_PUSH_PYTHON) == 0) python = python->outer();
  if (python == nullptr) return {};
  for (uint32_t i = 0; i < n; ++i) {
    const Variable* written = whole_of(writes[i]);
    const auto known = variables_.find(written);
    bool allowed = false;
    for (const Frame* frame = Frame::top(); frame != nullptr && !allowed; frame = frame->outer()) {
      const auto inside = pending_.find(&frame->block());
      if (inside == pending_.end()) continue;
      allowed = known != variables_.end() && known->second.creator == inside->second.number;
      for (const auto& place : inside->second.places) {
        allowed |= place.first == written && place.second;
      }
    }
    if (allowed) continue;
    return "writes a variable that the operation " + title_of(python->block()) +
           " did not declare: nothing orders the write among other users of the variable; list it "
           "among that operation's writes, or push from outside of it";
  }
  return {};
}

std::string Monitor::wait_begins(const Variable* variable, bool for_write) {
  const Guard guard(mutex_);
  Search search;
  for (const Frame* frame = Frame::top(); frame != nullptr; frame = frame->outer()) {
    search.own.push_back(&frame->block());
  }
  if (search.own.empty()) return {};  // nothing waits for what is outside of operations
  if (leads_back(variable, for_write, last_number_, search)) return tell(search);
  for (const Block* block : search.own) {
    const auto inside = pending_.find(block);
    if (inside == pending_.end()) continue;
    inside->second.awaited = variable;
    inside->second.for_write = for_write;
    inside->second.until = last_number_;
  }
  return {};
}

void Monitor::wait_ended() {
  const Guard guard(mutex_);
  for (const Frame* frame = Frame::top(); frame != nullptr; frame = frame->outer()) {
    const auto inside = pending_.find(&frame->block());
    if (inside != pending_.end()) inside->second.awaited = nullptr;
  }
}

// Whether something of what has to finish before the variable can be used waits for the searching
// thread's own operations.
bool Monitor::leads_back(const Variable* variable, bool for_write, uint64_t until,
                         Search& search) {
  const auto known = variables_.find(variable);
  if (known == variables_.end()) return false;
  for (const Use& use : known->second.uses) {
    if (use.number > until) break;
    if ((for_write || use.write) && leads_back(use.block, search)) return true;
  }
  return false;
}

bool Monitor::leads_back(const Block* block, Search& search) {
  if (among(search.seen, block)) return false;
  search.seen.push_back(block);
  search.path.push_back(block);
  if (among(search.own, block)) return true;
  const Pending& pending = pending_.at(block);
  if (pending.awaited != nullptr &&
      leads_back(pending.awaited, pending.for_write, pending.until, search)) {
    return true;
  }
  for (const auto& place : pending.places) {
    if (leads_back(place.first, place.second, pending.number - 1, search)) return true;
  }
  search.path.pop_back();
  return false;
}

std::string Monitor::tell(const Search& search) const {
  std::string text = "the program would wait for itself: " + title_of(Frame::top()->block());
  bool waits = true;
  for (const Block* block : search.path) {
    const Pending& pending = pending_.at(block);
    text += (waits ? " waits for " : " comes after ") + pending.title;
    if (block != search.path.back()) text += ", which";
    waits = pending.awaited != nullptr;
  }
  return text;
}

void Monitor::forget() {
  pending_.clear();
  for (auto& known : variables_) known.second.uses.clear();
}

}  // namespace mx::engine
