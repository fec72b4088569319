// SPDX-License-Identifier: Apache-2.0
//
// The beginning of an engine, stop, shut-down and its end.
#include <algorithm>
#include <new>
#include <thread>
#include <vector>

#include "engine.h"
#include "frame.h"
#include "table.h"

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

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      admission_(options_.sleep, !options_.naive),
      pools_(*this, options_.limits, options_.per_device),
      monitor_(options_.debug ? new Monitor : nullptr) {
  fill_table(&table_, this);
  enlist();
}

bool Engine::on_own_thread() noexcept {
  return WorkerPool::current() != nullptr || Stream::watching() || Frame::any();
}

void Engine::release(bool blocks) noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (admission_.is_shut_down() && pending() != 0) {
    abandon(this);
    return;
  }
  if (blocks && !on_own_thread()) {
    destroy();
    return;
  }
  try {  // a thread cannot wait for itself
    std::thread([this] { destroy(); }).detach();
  } catch (...) {
    abandon(this);
  }
}

void Engine::destroy() noexcept {
  drain(-1);
  pools_.stop(deadline(-1));
  devices_.stop(deadline(-1));
  while (visitors_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  delist();
  for (const Kept& kept : kept_) kept.release(kept.object);
  engine::release(cancellation());
  delete this;
}

bool Engine::stop(int64_t timeout_ns) noexcept {
  if (on_own_thread() || admission_.is_shut_down()) return false;
  const auto end = deadline(timeout_ns);
  if (!drain(timeout_ns)) return false;
  const bool lanes = pools_.stop(end);
  return devices_.stop(end) && lanes;
}

std::vector<Running> Engine::running() {
  std::vector<Running> found;
  pools_.running(found);
  devices_.running(found);
  return found;
}

void Engine::notify_shutdown() noexcept {
  admission_.shut_down();
  pools_.abandon();
  devices_.abandon();
}

bool Engine::close(int64_t timeout_ns) noexcept {
  const auto end = deadline(timeout_ns);
  if (!admission_.close(end)) return false;
  const auto left = end - std::chrono::steady_clock::now();
  return drain(std::max<int64_t>(0, std::chrono::nanoseconds(left).count()));
}

void Engine::finish_before_exit() noexcept {
  const auto end = std::chrono::steady_clock::now() + kExitLimit;
  while (pending() != 0) {
    if (std::chrono::steady_clock::now() >= end) {
      notify_shutdown();
      return;
    }
    admission_.sleep();
  }
}

void Engine::cancel(const char* why) noexcept {
  auto* poison = new (std::nothrow) Poison(FailureRef(make_failure(MX_ERROR_SHUTDOWN, why)));
  Poison* none = nullptr;
  if (!cancellation_.compare_exchange_strong(none, poison, std::memory_order_acq_rel)) engine::release(poison);
}

int Engine::set_workers(int n) noexcept {
  if (options_.naive) return 0;
  pools_.set_compute_threads(std::clamp(n, 1, 1024));
  return workers();
}

}  // namespace mx::engine
