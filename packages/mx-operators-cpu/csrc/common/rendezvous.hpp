// SPDX-License-Identifier: Apache-2.0
//
// Operations of several devices that put what they computed together: each waits for the others.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mx::cpu {

// Where operations meet, round by round: a round ends when as many devices as are expected have come.
//
// Threads: any. In the child of a fork, those of `of` begin anew: who waits in the parent does not exist there.
class Rendezvous {
 public:
  using Part = std::vector<double>;
  using Parts = std::map<int32_t, Part>;  // by device, so that sums do not depend on who came first

  // What came of a round. No two rounds that ended well have the same number, also not of other places.
  struct Met {
    std::shared_ptr<const Parts> parts;
    int64_t number;  // 1 or more
  };

  using Seconds = std::chrono::duration<double>;
  // A longer wait, until its argument says so; it may come back earlier.
  using Wait = std::function<void(const std::function<bool()>& over)>;

  // Brings the part of a device and takes those of all of the same `step`, which tells rounds apart that go on at the
  // same time. `apart`: how to wait where that takes long; may be empty.
  //
  // Blocks: until all have come, or the time is over. A device that comes again waits for its round to end first.
  // Errors: Error, for all of a round, when one did not come in time, expects another number of devices or brought a
  // part of another size.
  Met join(int32_t device, Part part, size_t expected, Seconds patience, const Wait& apart = {}, int64_t step = 0);

  // The one of a name, which lives as long as the process.
  static Rendezvous& of(const std::string& name);

  explicit Rendezvous(std::string name) : name_(std::move(name)), state_(std::make_unique<State>()) {}

 private:
  struct Round {
    std::shared_ptr<Parts> parts = std::make_shared<Parts>();
    size_t expected = 0;  // what the first of them expects
    int64_t step = 0;
    int64_t number = 0;  // once it has ended
    bool ended = false;
    std::string failure;
  };
  struct State {
    std::mutex mutex;  // guards what follows
    std::condition_variable changed;
    std::map<int64_t, std::shared_ptr<Round>> rounds;  // that go on, by step

    // The one to join.
    std::shared_ptr<Round> round(int64_t step);
    // Nobody joins it any more; its members go on. The lock is held.
    void end(Round& ended, std::string failure);
  };
  struct Registry;

  // What is wrong with one more part of a round; nothing if it fits.
  std::string misfit(const Round& round, int32_t device, size_t size, size_t expected) const;
  std::string late(const Round& round) const;

  const std::string name_;
  std::unique_ptr<State> state_;  // replaced after a fork only
};

}  // namespace mx::cpu
