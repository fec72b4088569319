// SPDX-License-Identifier: Apache-2.0
#include "common/rendezvous.hpp"

#include <utility>

#include "mx_core/plan.hpp"

namespace mx::cpu {

void Rendezvous::end(Round& round, std::string failure) {
  round.ended = true;
  round.failure = std::move(failure);
  round_ = std::make_shared<Round>();
  changed_.notify_all();
}

std::shared_ptr<const Rendezvous::Parts> Rendezvous::join(int32_t device, Part part, size_t expected,
                                                    std::chrono::duration<double> patience) {
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::duration_cast<std::chrono::steady_clock::duration>(patience);
  std::unique_lock<std::mutex> lock(mutex_);
  const auto late = [&](const Round& round) {
    std::string who;
    for (const auto& member : *round.parts)
      who += (who.empty() ? "" : ", ") + std::string("cpu(") + std::to_string(member.first) + ")";
    return "[" + name_ + "] " + std::to_string(round.parts->size()) + " of " + std::to_string(expected) +
           " devices came within MX_SYNC_TIMEOUT: " + who +
           "; each of them has to run the layer as often as the others";
  };
  const auto wait = [&](const std::shared_ptr<Round>& round) {
    if (!changed_.wait_until(lock, deadline, [&] { return round->ended; })) end(*round, late(*round));
  };
  while (round_->parts->count(device) != 0) wait(std::shared_ptr<Round>(round_));
  const std::shared_ptr<Round> round = round_;
  const bool fits = round->parts->empty() || round->parts->begin()->second.size() == part.size();
  round->parts->emplace(device, std::move(part));
  if (!fits) {
    end(*round, "[" + name_ + "] devices have different numbers of channels");
  } else if (round->parts->size() >= expected) {
    end(*round, "");
  } else {
    wait(round);
  }
  if (!round->failure.empty()) throw Error(MX_ERROR_VALUE, round->failure);
  return round->parts;
}

Rendezvous& Rendezvous::of(const std::string& name) {
  // Never destroyed: operations may still run when the process ends.
  static auto* const mutex = new std::mutex;
  static auto* const known = new std::map<std::string, std::unique_ptr<Rendezvous>>;
  const std::lock_guard<std::mutex> lock(*mutex);
  std::unique_ptr<Rendezvous>& found = (*known)[name];
  if (found == nullptr) found = std::make_unique<Rendezvous>(name);
  return *found;
}

}  // namespace mx::cpu
