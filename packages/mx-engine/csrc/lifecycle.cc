// SPDX-License-Identifier: Apache-2.0
//
// Stop, shut-down and the end of an engine.
#include "lifecycle.hpp"

#include <algorithm>
#include <new>
#include <thread>

#include "engine.hpp"
#include "mx_core/exit_guard.hpp"

namespace mx::engine {
namespace {

// How long what an exit handler pushes may take.
constexpr auto kExitLimit = std::chrono::seconds(10);

// Engines that were shut down with work pending: threads may still be inside them, so they go with
// the process.  Kept reachable for leak checkers.
struct Abandoned {
  Engine* engine;
  Abandoned* next;
};
std::atomic<Abandoned*> abandoned{nullptr};

void abandon(Engine* engine) noexcept {
  auto* entry = new (std::nothrow) Abandoned{engine, nullptr};
  if (entry == nullptr) return;
  entry->next = abandoned.load(std::memory_order_relaxed);
  while (!abandoned.compare_exchange_weak(entry->next, entry, std::memory_order_release)) {
  }
}

}  // namespace

Lifecycle::Lifecycle(Engine* engine, Admission& admission, Variables& variables, Completion& completion,
                     Scheduler& scheduler, Waiting& waiting, Profile& profile, Monitor* monitor)
    : engine_(engine),
      admission_(admission),
      variables_(variables),
      completion_(completion),
      scheduler_(scheduler),
      waiting_(waiting),
      profile_(profile),
      monitor_(monitor) {
  enlist();
}

void Lifecycle::release(bool blocks) noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (admission_.is_shut_down() && waiting_.pending() != 0) {
    abandon(engine_);
    return;
  }
  if (blocks && !Scheduler::on_own_thread()) {
    destroy();
    return;
  }
  try {  // a thread cannot wait for itself
    std::thread([this] { destroy(); }).detach();
  } catch (...) {
    abandon(engine_);
  }
}

void Lifecycle::destroy() noexcept {
  waiting_.drain(-1);
  scheduler_.stop(deadline(-1));
  while (scheduler_.visited()) std::this_thread::yield();
  delist();
  for (const Kept& kept : kept_) kept.release(kept.object);
  delete engine_;
}

bool Lifecycle::stop(int64_t timeout_ns) noexcept {
  if (Scheduler::on_own_thread() || admission_.is_shut_down()) return false;
  const auto end = deadline(timeout_ns);
  if (!waiting_.drain(timeout_ns)) return false;
  return scheduler_.stop(end);
}

void Lifecycle::notify_shutdown() noexcept {
  admission_.shut_down();
  completion_.cancel("the engine was shut down before the operation began");
  scheduler_.abandon();
  // Only now, so that exit() waits before it destroys anything that a kernel may use.
  static std::once_flag held;
  std::call_once(held, [] { hold_exit_until(&Lifecycle::all_quiet); });
}

bool Lifecycle::close(int64_t timeout_ns) noexcept {
  const auto end = deadline(timeout_ns);
  if (!admission_.close(end)) return false;
  const auto left = end - std::chrono::steady_clock::now();
  return waiting_.drain(std::max<int64_t>(0, std::chrono::nanoseconds(left).count()));
}

void Lifecycle::finish_before_exit() noexcept {
  const auto end = std::chrono::steady_clock::now() + kExitLimit;
  while (waiting_.pending() != 0) {
    if (std::chrono::steady_clock::now() >= end) {
      notify_shutdown();
      return;
    }
    admission_.sleep();
  }
}

void Lifecycle::keep(void* object, void (*release)(void*)) {
  std::lock_guard<std::mutex> lock(kept_mutex_);
  kept_.push_back({object, release});
}

}  // namespace mx::engine
