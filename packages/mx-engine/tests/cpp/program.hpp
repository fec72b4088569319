// SPDX-License-Identifier: Apache-2.0
//
// Random programs, and the sequential model of what the engine must make of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace test {

enum class Manner { plain, inlined, asynchronous, python, parallel };

struct Step {
  uint64_t id = 0;
  std::vector<int> reads, writes;  // indices of variables
  Manner manner = Manner::plain;
  bool fails = false;
  bool no_skip = false;
  int priority = 0;
  int device = -1;        // of those the program may use; -1: the host
  int lane = 0;
  bool fails_late = false;  // if it fails, then after its launch
};

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull;
  return x ^ (x >> 33);
}

// What a step makes of a variable it writes: depends on everything it touches.
inline std::vector<uint64_t> results(const Step& step, const std::vector<uint64_t>& values) {
  uint64_t sum = step.id;
  for (const int r : step.reads) sum = mix(sum, values[r]);
  std::vector<uint64_t> out;
  for (const int w : step.writes) sum = mix(sum, values[w]);
  for (const int w : step.writes) out.push_back(mix(sum, static_cast<uint64_t>(w)));
  return out;
}

inline std::string failure_text(const Step& step) { return "step " + std::to_string(step.id); }

// Executes steps one by one under the engine's rules.
class Model {
 public:
  explicit Model(int variables)
      : values(variables), versions(variables), marks(variables), active_(variables) {}

  void execute(const Step& step) {
    std::string cause;
    for (const auto* list : {&step.reads, &step.writes}) {
      for (const int v : *list) {
        if (cause.empty() && active_[v]) cause = marks[v];
      }
    }
    const bool skipped = !cause.empty() && !step.no_skip;
    if (!skipped) {
      cause.clear();
      if (step.fails) {
        cause = failure_text(step);
        unseen_.push_back(cause);
      } else {
        const auto out = results(step, values);
        for (size_t i = 0; i < step.writes.size(); ++i) values[step.writes[i]] = out[i];
      }
    }
    for (const int w : step.writes) {
      ++versions[w];
      if (active_[w]) continue;  // the first cause stays
      marks[w] = cause;
      active_[w] = !cause.empty();
    }
  }
  // What a wait for the variable raises.
  std::string deliver(int v) {
    if (!active_[v]) return "";
    const std::string cause = marks[v];
    for (size_t i = 0; i < marks.size(); ++i) {
      if (active_[i] && marks[i] == cause) active_[i] = false;
    }
    unseen_.erase(std::remove(unseen_.begin(), unseen_.end(), cause), unseen_.end());
    return cause;
  }
  bool any_unseen() const { return !unseen_.empty(); }
  bool is_unseen(const std::string& text) const {
    return std::find(unseen_.begin(), unseen_.end(), text) != unseen_.end();
  }
  void deliver_all() {
    std::fill(active_.begin(), active_.end(), false);
    unseen_.clear();
  }

  std::vector<uint64_t> values, versions;
  std::vector<std::string> marks;  // what variable_failure answers

 private:
  std::vector<bool> active_;
  std::vector<std::string> unseen_;
};

class Generator {
 public:
  Generator(uint64_t seed, int variables, int devices = 0)
      : random_(seed), variables_(variables), devices_(devices) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }

  Step step(int failing_percent) {
    Step s;
    s.id = ++last_;
    std::vector<int> all(variables_);
    for (int i = 0; i < variables_; ++i) all[i] = i;
    std::shuffle(all.begin(), all.end(), random_);
    const int reads = below(std::min(6, variables_));
    const int writes = below(std::min(4, variables_ - reads + 1));
    s.reads.assign(all.begin(), all.begin() + reads);
    s.writes.assign(all.begin() + reads, all.begin() + reads + writes);
    s.fails = chance(failing_percent);
    s.no_skip = chance(5);
    s.priority = chance(30) ? below(7) - 3 : 0;
    const int manner = below(100);
    s.manner = manner < 50   ? Manner::plain
               : manner < 75 ? Manner::inlined
               : manner < 85 ? Manner::asynchronous
               : manner < 93 ? Manner::python
                             : Manner::parallel;
    if (devices_ > 0 && chance(60)) {
      s.device = below(devices_);
      s.lane = chance(60) ? 0 : 1 + below(2);
      s.fails_late = chance(50);
    }
    // What was launched after a failure that is not known yet runs and is failed afterwards; a
    // no-skip operation would see what it made of its variables.
    if (devices_ > 0 && failing_percent > 0) s.no_skip = false;
    return s;
  }

 private:
  std::mt19937_64 random_;
  const int variables_, devices_;
  uint64_t last_ = 0;
};

}  // namespace test
