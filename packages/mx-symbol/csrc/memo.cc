// SPDX-License-Identifier: Apache-2.0
//
// When the prepared segments of a binding have to run again.
#include "memo.hpp"

#include "binding.hpp"

namespace mx::symbol {

// What a prepared segment's results depend on, as it is now; nobody writes it meanwhile.
Memo::Stamp Binding::stamp(uint32_t segment, size_t position) const {
  const Tables& tables = program_->tables();
  const Segment& known = program_->segments()[segment];
  mx_array* array = arrays_[known.arrays[position]];
  void* address = segments_[segment].addresses[position];
  if (position < known.writes.size() + known.shares.size()) return {array, address, 0};
  mx_variable* variable = tables.invoke->array_variable(tables.invoke->self, array);
  return {array, address, tables.engine->variable_version(tables.engine->self, variable)};
}

// Versions count writes that have ended.  On a device one may have begun whose values this run is to use.
bool Binding::is_in_flight(const Memo::Stamp& read) const {
  const Tables& tables = program_->tables();
  if (mx_on_host(program_->context())) return false;
  mx_variable* variable = tables.invoke->array_variable(tables.invoke->self, read.array);
  return tables.engine->variable_ready(tables.engine->self, variable, 0) == 0;
}

bool Binding::has_current_stamps(uint32_t segment) const {
  const std::vector<Memo::Stamp>& known = memo_->stamps(segment);
  const Segment& touched = program_->segments()[segment];
  const size_t n = segments_[segment].addresses.size(), n_made = touched.writes.size() + touched.shares.size();
  if (known.size() != n) return false;
  for (size_t i = 0; i < n; ++i) {
    if (!(known[i] == stamp(segment, i)) || (i >= n_made && is_in_flight(known[i]))) return false;
  }
  return true;
}

// The first prepared segment stands for all of its part: what they hand to each other does not last.
bool Binding::is_current(uint32_t segment) const {
  if (!has_current_stamps(segment)) return false;
  for (const Part& part : program_->parts()) {
    if (segment != part.begin) continue;
    for (uint32_t i = part.begin + 1; i < part.prepared_end; ++i) {
      if (memo_->stamps(i).empty()) return false;
    }
  }
  return true;
}

// Half a run holds nothing.
void Binding::forget_prepared() {
  for (const Part& part : program_->parts()) {
    for (uint32_t i = part.begin; i < part.prepared_end; ++i) memo_->record(i, {});
  }
}

void Binding::remember(uint32_t segment) {
  std::vector<Memo::Stamp> now;
  for (size_t i = 0; i < segments_[segment].addresses.size(); ++i) now.push_back(stamp(segment, i));
  memo_->record(segment, std::move(now));
}

}  // namespace mx::symbol
