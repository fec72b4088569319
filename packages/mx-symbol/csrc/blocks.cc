// SPDX-License-Identifier: Apache-2.0
#include "blocks.hpp"

#include <algorithm>

#include "mx_core/failure.hpp"

namespace mx::symbol {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

class Sharing {
 public:
  Sharing(const std::vector<PlanStep>& steps, const std::vector<Value>& values, const MayTakeOver& may_take_over)
      : steps_(steps), values_(values), may_take_over_(may_take_over), owners_(values.size(), kNone),
        taken_(values.size(), kNone) {
    made_.lifetimes.resize(values.size());
    for (uint32_t time = 0; time < steps.size(); ++time) {
      for (const uint32_t value : steps[time].writes) made_.lifetimes.at(value).birth = time;
      for (const uint32_t value : steps[time].reads) made_.lifetimes.at(value).last_read = time;
    }
  }

  SharedBlocks run() {
    for (uint32_t time = 0; time < steps_.size(); ++time) {
      const std::vector<uint32_t>& writes = steps_[time].writes;
      for (uint32_t position = 0; position < writes.size(); ++position) place(time, position, writes[position]);
    }
    made_.live = largest_live_set();
    return std::move(made_);
  }

 private:
  void place(uint32_t time, uint32_t position, uint32_t value) {
    const Value& known = values_[value];
    if (known.external && known.hosts_from < 0) return;
    uint32_t donor = find_donor(time, position, value);
    if (donor != kNone && may_take_over_ && !may_take_over_(donor, time)) donor = kNone;
    if (known.external) {
      // Nothing but what ends in it lies in an external value's memory, because it is written once.
      if (donor == kNone || made_.blocks[owners_[donor]].block.birth < known.hosts_from) return;
      taken_[donor] = time;
      made_.blocks[owners_[donor]].host = value;
      return;
    }
    const int64_t death = std::max<int64_t>(time, made_.lifetimes[value].last_read);
    if (donor == kNone) {
      const uint64_t size = in_arena(known.bytes);
      owners_[value] = static_cast<uint32_t>(made_.blocks.size());
      made_.blocks.push_back({{value}, {time, death, size}});
      return;
    }
    taken_[donor] = time;
    owners_[value] = owners_[donor];
    SharedBlock& shared = made_.blocks[owners_[donor]];
    shared.values.push_back(value);
    shared.block.death = death;
  }

  // The bytes that a value takes in the arena, whose size then fits into 63 bits wherever the blocks are placed.
  uint64_t in_arena(uint64_t bytes) {
    constexpr uint64_t kMost = INT64_MAX - kAlignment;
    if (bytes > kMost - std::min(kMost, total_)) {
      throw Error(MX_ERROR_MEMORY, "[memory plan] the values of the graph have more than 2^63 bytes");
    }
    const uint64_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    total_ += size;
    return size;
  }

  // The first of the allowed inputs whose memory an output can take over, or kNone.
  uint32_t find_donor(uint32_t time, uint32_t position, uint32_t target) const {
    const PlanStep& step = steps_[time];
    if (step.inplace == nullptr) return kNone;
    const auto allowed = [&](uint32_t input) {
      return std::binary_search(step.inplace->begin(), step.inplace->end(), std::pair(input, position));
    };
    for (const auto& [input, output] : *step.inplace) {
      if (output != position) continue;
      const uint32_t value = step.reads.at(input);
      if (owners_[value] == kNone || taken_[value] == time || made_.lifetimes[value].last_read != time ||
          values_[value].bytes != values_[target].bytes) {
        continue;
      }
      // Another position that reads the same memory must tolerate the overwriting too.
      bool everywhere = true;
      for (uint32_t other = 0; other < step.reads.size() && everywhere; ++other) {
        everywhere = step.reads[other] != value || allowed(other);
      }
      if (everywhere) return value;
    }
    return kNone;
  }

  uint64_t largest_live_set() const {
    std::vector<int64_t> change(steps_.size() + 1, 0);
    for (const SharedBlock& shared : made_.blocks) {
      if (shared.host >= 0) continue;
      change[static_cast<size_t>(shared.block.birth)] += static_cast<int64_t>(shared.block.size);
      change[static_cast<size_t>(shared.block.death) + 1] -= static_cast<int64_t>(shared.block.size);
    }
    int64_t largest = 0, live = 0;
    for (const int64_t delta : change) {
      live += delta;
      largest = std::max(largest, live);
    }
    return static_cast<uint64_t>(largest);
  }

  const std::vector<PlanStep>& steps_;
  const std::vector<Value>& values_;
  const MayTakeOver& may_take_over_;
  std::vector<uint32_t> owners_;  // per value the block
  std::vector<uint32_t> taken_;   // per value the step in which an output took its memory over
  uint64_t total_ = 0;            // bytes of all blocks
  SharedBlocks made_;
};

}  // namespace

SharedBlocks share_blocks(const std::vector<PlanStep>& steps, const std::vector<Value>& values,
                          const MayTakeOver& may_take_over) {
  return Sharing(steps, values, may_take_over).run();
}

}  // namespace mx::symbol
