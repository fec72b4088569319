// SPDX-License-Identifier: Apache-2.0
#include "hazard.hpp"

#include <mutex>
#include <new>

#include "leaf_mutex.hpp"

namespace mx::nd::hazard {
namespace {

// Slots are never freed: a thread that ends leaves its own to the next one.
struct Slot {
  std::atomic<const void*> object{nullptr};
  std::atomic<bool> taken{true};
  Slot* next = nullptr;
};

std::atomic<Slot*>& slots() noexcept {
  static std::atomic<Slot*> first{nullptr};
  return first;
}

Slot* take_slot() {
  for (Slot* slot = slots().load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
    bool taken = false;
    if (slot->taken.compare_exchange_strong(taken, true, std::memory_order_acq_rel)) return slot;
  }
  auto* made = new Slot;
  made->next = slots().load(std::memory_order_relaxed);
  while (!slots().compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {
  }
  return made;
}

thread_local Slot* mine = nullptr;
thread_local bool ended = false;

// Gives the slot back when the thread ends; what other destructors of the thread take after that is
// never reused.
struct Holder {
  ~Holder() {
    ended = true;
    mine->taken.store(false, std::memory_order_release);
    mine = nullptr;
  }
};

bool announced(const void* object) noexcept {
  for (Slot* slot = slots().load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
    if (slot->object.load(std::memory_order_seq_cst) == object) return true;
  }
  return false;
}

struct Retired {
  void* object;
  void (*destroy)(void*) noexcept;
  Retired* next;
};

struct Queue {
  Retired* first = nullptr;  // guarded by leaf_mutex<Queue>
};
Queue& queue() noexcept {
  static auto* made = new Queue;  // leaked: threads may outlive static destruction
  return *made;
}

}  // namespace

std::atomic<const void*>& slot() noexcept {
  if (mine == nullptr) {
    mine = take_slot();
    if (!ended) {
      static thread_local const Holder holder;
      (void)holder;
    }
  }
  return mine->object;
}

void retire(void* object, void (*destroy)(void*) noexcept) noexcept {
  auto* entry = new (std::nothrow) Retired{object, destroy, nullptr};
  if (entry == nullptr) return;  // out of memory: it is lost rather than freed under a reader
  Retired* free = nullptr;
  {
    Queue& waiting = queue();
    std::lock_guard<std::mutex> lock(leaf_mutex<Queue>());
    entry->next = waiting.first;
    waiting.first = entry;
    for (Retired** place = &waiting.first; *place != nullptr;) {
      Retired* candidate = *place;
      if (announced(candidate->object)) {
        place = &candidate->next;
      } else {
        *place = candidate->next;
        candidate->next = free;
        free = candidate;
      }
    }
  }
  while (free != nullptr) {
    Retired* done = free;
    free = free->next;
    done->destroy(done->object);
    delete done;
  }
}

}  // namespace mx::nd::hazard
