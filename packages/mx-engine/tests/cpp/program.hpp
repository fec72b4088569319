// SPDX-License-Identifier: Apache-2.0
//
// Random programs, and the sequential model of what the engine must make of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
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
      : values(variables), versions_(variables), marks_(variables), active_(variables), whole_(variables) {
    for (int v = 0; v < variables; ++v) whole_[v] = v;
  }

  void execute(const Step& step) {
    std::string cause;
    const std::vector<int> written = wholes(step.writes);
    std::vector<int> used = wholes(step.reads);  // of what is read and written the write counts
    used.erase(std::remove_if(used.begin(), used.end(),
                              [&](int v) { return std::count(written.begin(), written.end(), v) != 0; }),
               used.end());
    used.insert(used.end(), written.begin(), written.end());
    for (const int v : used) {
      if (cause.empty() && active_[v]) cause = marks_[v];
    }
    const bool skipped = !cause.empty() && !step.no_skip;
    if (skipped) inherited_.insert(cause);
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
    for (const int w : written) {
      ++versions_[w];
      if (active_[w]) continue;  // the first cause stays
      marks_[w] = cause;
      active_[w] = !cause.empty();
    }
  }
  // Whether they can be joined in a quiet moment.
  bool may_be_joined(const std::vector<int>& variables) const {
    const std::vector<int> parts = wholes(variables);
    return parts.size() == 1 ||
           std::all_of(parts.begin(), parts.end(), [this](int v) { return marks_[v].empty(); });
  }
  void join(const std::vector<int>& variables) {
    const std::vector<int> parts = wholes(variables);
    if (parts.size() == 1) return;
    const int whole = static_cast<int>(versions_.size());
    uint64_t version = 0;
    for (const int v : parts) version = std::max(version, versions_[v] + 1);
    versions_.push_back(version);
    marks_.emplace_back();
    active_.push_back(false);
    for (int& v : whole_) {
      if (std::count(parts.begin(), parts.end(), v) != 0) v = whole;
    }
  }
  uint64_t version(int v) const { return versions_[whole_[v]]; }
  bool touched_by_failure(int v) const { return !marks_[whole_[v]].empty(); }
  // What variable_failure answers.
  std::string mark(int v) const {
    const int whole = whole_[v];
    return whole == v || active_[whole] || inherited_.count(marks_[whole]) != 0 ? marks_[whole] : "";
  }
  // What a wait for the variable raises.
  std::string deliver(int v) {
    v = whole_[v];
    if (!active_[v]) return "";
    const std::string cause = marks_[v];
    for (size_t i = 0; i < marks_.size(); ++i) {
      if (active_[i] && marks_[i] == cause) active_[i] = false;
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

  std::vector<uint64_t> values;

 private:
  // Those that variables are parts of, each once.
  std::vector<int> wholes(const std::vector<int>& variables) const {
    std::vector<int> found;
    for (const int v : variables) {
      if (std::count(found.begin(), found.end(), whole_[v]) == 0) found.push_back(whole_[v]);
    }
    return found;
  }

  // Of the variables, then of what they were joined to.
  std::vector<uint64_t> versions_;
  std::vector<std::string> marks_;
  std::vector<bool> active_;
  std::vector<int> whole_;
  std::set<std::string> inherited_;  // causes for which something was skipped
  std::vector<std::string> unseen_;
};

class Generator {
 public:
  Generator(uint64_t seed, int variables, int devices = 0)
      : random_(seed), variables_(variables), devices_(devices) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }

  // Some of the variables, in any order.
  std::vector<int> some(int n) {
    std::vector<int> all(variables_);
    for (int i = 0; i < variables_; ++i) all[i] = i;
    std::shuffle(all.begin(), all.end(), random_);
    all.resize(n);
    return all;
  }

  Step step(int failing_percent) {
    Step s;
    s.id = ++last_;
    const std::vector<int> all = some(variables_);
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
