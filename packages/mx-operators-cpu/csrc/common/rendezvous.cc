// SPDX-License-Identifier: Apache-2.0
#include "common/rendezvous.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "mx_core/plan.hpp"

namespace mx::cpu {
namespace {

std::atomic<int64_t> rounds_ended{0};  // of the process, and of those that it was forked from before that

constexpr std::chrono::milliseconds kShortWait{2};  // on the thread that came

std::string cpu(int32_t device) { return "cpu(" + std::to_string(device) + ")"; }

}  // namespace

void Rendezvous::State::end(Round& ended, std::string failure) {
  ended.ended = true;
  ended.failure = std::move(failure);
  ended.number = ++rounds_ended;
  rounds.erase(ended.step);
  changed.notify_all();
}

std::shared_ptr<Rendezvous::Round> Rendezvous::State::round(int64_t step) {
  std::shared_ptr<Round>& found = rounds[step];
  if (found == nullptr) {
    found = std::make_shared<Round>();
    found->step = step;
  }
  return found;
}

std::string Rendezvous::misfit(const Round& round, int32_t device, size_t size, size_t expected) const {
  if (round.parts->empty()) return "";
  const auto& [other, part] = *round.parts->begin();
  const std::string who = "[" + name_ + "] " + cpu(other) + " and " + cpu(device);
  if (round.expected != expected)
    return who + " expect " + std::to_string(round.expected) + " and " + std::to_string(expected) +
           " devices: ndev has to be the same on all; layers of another network need another key";
  if (part.size() != size)
    return who + " bring " + std::to_string(part.size()) + " and " + std::to_string(size) +
           " numbers: devices have different numbers of channels; layers of another network need another key";
  return "";
}

std::string Rendezvous::late(const Round& round) const {
  std::string who;
  for (const auto& member : *round.parts) who += (who.empty() ? "" : ", ") + cpu(member.first);
  return "[" + name_ + "] " + std::to_string(round.parts->size()) + " of " + std::to_string(round.expected) +
         " devices came within MX_SYNC_TIMEOUT: " + who +
         "; each of them has to run the layer as often as the others, and nothing before it may have failed";
}

Rendezvous::Met Rendezvous::join(int32_t device, Part part, size_t expected, Seconds patience, const Wait& apart,
                                 int64_t step) {
  using Clock = std::chrono::steady_clock;
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  // Whether the round ended in time.
  const auto wait = [&](const Round& round) {
    const auto over = [&round] { return round.ended; };
    const Clock::time_point now = Clock::now(), deadline = now + std::chrono::duration_cast<Clock::duration>(patience);
    if (state.changed.wait_until(lock, std::min<Clock::time_point>(deadline, now + kShortWait), over)) return true;
    if (apart && Clock::now() < deadline) {
      lock.unlock();
      apart([&] {
        const std::lock_guard<std::mutex> guard(state.mutex);
        return round.ended || Clock::now() >= deadline;
      });
      lock.lock();
    }
    return state.changed.wait_until(lock, deadline, over);
  };
  std::shared_ptr<Round> round = state.round(step);
  for (; round->parts->count(device) != 0; round = state.round(step))
    if (!wait(*round)) throw Error(MX_ERROR_VALUE, late(*round));
  std::string failure = misfit(*round, device, part.size(), expected);
  round->expected = std::max(round->expected, expected);
  round->parts->emplace(device, std::move(part));
  if (!failure.empty() || round->parts->size() >= expected) {
    state.end(*round, std::move(failure));
  } else if (!wait(*round)) {
    state.end(*round, late(*round));
  }
  if (!round->failure.empty()) throw Error(MX_ERROR_VALUE, round->failure);
  return {round->parts, round->number};
}

// Never destroyed: operations may still run when the process ends.
struct Rendezvous::Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Rendezvous>> known;

  static Registry& instance() {
    static auto* const made = [] {
      auto* const registry = new Registry;
      ::pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); }, [] { instance().forked(); });
      return registry;
    }();
    return *made;
  }

  // In the child: what its parent's threads hold or wait on is left to them.
  void forked() {
    for (const auto& entry : known) {
      static_cast<void>(entry.second->state_.release());
      entry.second->state_ = std::make_unique<State>();
    }
    mutex.unlock();
  }
};

Rendezvous& Rendezvous::of(const std::string& name) {
  Registry& registry = Registry::instance();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::unique_ptr<Rendezvous>& found = registry.known[name];
  if (found == nullptr) found = std::make_unique<Rendezvous>(name);
  return *found;
}

}  // namespace mx::cpu
