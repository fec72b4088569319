// SPDX-License-Identifier: Apache-2.0
//
// Operations of several devices that put what they computed together: each waits for the others.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mx::cpu {

// Where operations meet, round by round: a round ends when as many devices as are expected have come.
//
// Threads: any.
class Rendezvous {
 public:
  using Part = std::vector<double>;
  using Parts = std::map<int32_t, Part>;  // by device, so that sums do not depend on who came first

  // Brings the part of a device and takes those of all.
  //
  // Blocks: until all have come, or the time is over. A device that comes again waits for its round to end.
  // Errors: Error, for all of a round, when one did not come in time or brought a part of another size.
  std::shared_ptr<const Parts> join(int32_t device, Part part, size_t expected, std::chrono::duration<double> patience);

  // The one of a name, which lives as long as the process.
  static Rendezvous& of(const std::string& name);

  explicit Rendezvous(std::string name) : name_(std::move(name)) {}

 private:
  struct Round {
    std::shared_ptr<Parts> parts = std::make_shared<Parts>();
    bool ended = false;
    std::string failure;
  };

  // Nobody joins it any more; its members go on. The lock is held.
  void end(Round& round, std::string failure);

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Round> round_ = std::make_shared<Round>();
};

}  // namespace mx::cpu
