// SPDX-License-Identifier: Apache-2.0
#include "window.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

#include "mx_core/failure.hpp"

namespace mx::kv {

// What a worker says of itself.  Of lines of their own, as others read them often.
struct Window::Place {
  alignas(128) std::atomic<uint64_t> marks[5];  // by Mark
  alignas(128) std::atomic<uint32_t> bell;    // changes when another worker has come further
  std::atomic<uint32_t> asleep;               // whether it waits for that
  alignas(128) uint32_t slots[2][kSlots];     // of its last chunks, by kind and by their numbers modulo kSlots
};

namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

constexpr int kLooks = 64;                         // at least, without sleeping: a fraction of what it takes to sleep
constexpr int64_t kAwake = 20 * 1000;              // nanoseconds of looks, where every worker has a processor
constexpr int64_t kNap = 100 * 1000 * 1000;        // nanoseconds after which a sleeper looks anyway

size_t rounded(size_t bytes) noexcept { return (bytes + 127) / 128 * 128; }

size_t shard_bytes(int64_t workers) noexcept {
  return rounded(Window::kChunk / static_cast<size_t>(workers) + 192);
}

int64_t now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void sleep_on(std::atomic<uint32_t>& bell, uint32_t seen, int64_t nanoseconds) noexcept {
  const timespec limit{static_cast<time_t>(nanoseconds / 1000000000), static_cast<long>(nanoseconds % 1000000000)};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&bell), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void ring(std::atomic<uint32_t>& bell) noexcept {
  bell.fetch_add(1);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&bell), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

Error refused(const char* what) {
  return Error(MX_ERROR, std::string("[KVStore] memory that workers share: ") + what + ": " + std::strerror(errno));
}

}  // namespace

size_t Window::bytes(int64_t workers) noexcept {
  const size_t tables = 2 * kNumbers * sizeof(int64_t);
  return static_cast<size_t>(workers) * (rounded(sizeof(Place)) + tables + kSlots * (kChunk + shard_bytes(workers)));
}

Window::Window(int file, int64_t rank, int64_t workers)
    : rank_(rank), workers_(workers), crowded_(workers > static_cast<int64_t>(std::thread::hardware_concurrency())) {
  if (workers < 1 || rank < 0 || rank >= workers) {
    throw Error(MX_ERROR_VALUE, "[KVStore] rank: expected one of " + std::to_string(workers) + ", got " +
                                    std::to_string(rank));
  }
  struct stat found {};
  if (fstat(file, &found) != 0) throw refused("fstat");
  if (static_cast<size_t>(found.st_size) < bytes(workers)) {
    throw Error(MX_ERROR_VALUE, "[KVStore] memory that workers share: expected " + std::to_string(bytes(workers)) +
                                    " bytes, got " + std::to_string(found.st_size));
  }
  void* memory = mmap(nullptr, bytes(workers), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) throw refused("mmap");
  memory_ = static_cast<char*>(memory);
}

Window::~Window() { munmap(memory_, bytes(workers_)); }

Window::Place& Window::place(int64_t worker) const noexcept {
  return *reinterpret_cast<Place*>(memory_ + static_cast<size_t>(worker) * rounded(sizeof(Place)));
}

int64_t* Window::table(int64_t worker, uint64_t turn) const noexcept {
  char* tables = memory_ + static_cast<size_t>(workers_) * rounded(sizeof(Place));
  return reinterpret_cast<int64_t*>(tables) + (2 * static_cast<size_t>(worker) + turn % 2) * kNumbers;
}

// Terms are needed until all have added them, this worker too: it reads its own codes from its slot.  Its sums are needed
// until the others have taken them.  Workers add chunks in their order and take sums in their order.  So as long as one
// needs chunk n - kSlots, they need all that follow, no slot is free, and the place where its slot is noted is not
// written again.
size_t Window::first_free(Slot kind) const noexcept {
  uint64_t done = least(kind == Slot::kTerms ? Mark::kSummed : Mark::kTaken);
  if (kind == Slot::kTerms) done = std::min(done, place(rank_).marks[static_cast<size_t>(Mark::kSummed)].load());
  const uint64_t* held = held_[static_cast<size_t>(kind)];
  return static_cast<size_t>(std::find_if(held, held + kSlots, [done](uint64_t chunk) { return chunk <= done; }) - held);
}

bool Window::has_free(Slot kind) const noexcept { return first_free(kind) < kSlots; }

bool Window::claim(Slot kind, uint64_t chunk) noexcept {
  const size_t found = first_free(kind), k = static_cast<size_t>(kind);
  if (found == kSlots) return false;
  held_[k][found] = chunk + 1;
  place(rank_).slots[k][chunk % kSlots] = static_cast<uint32_t>(found);
  return true;
}

char* Window::memory(Slot kind, int64_t worker, uint64_t chunk) const noexcept {
  const size_t workers = static_cast<size_t>(workers_);
  char* memory = memory_ + workers * (rounded(sizeof(Place)) + 2 * kNumbers * sizeof(int64_t));
  size_t bytes = kChunk;
  if (kind == Slot::kSums) {
    memory += workers * kSlots * kChunk;
    bytes = shard_bytes(workers_);
  }
  const uint32_t slot = place(worker).slots[static_cast<size_t>(kind)][chunk % kSlots];
  return memory + (static_cast<size_t>(worker) * kSlots + slot) * bytes;
}

void Window::tell(const std::vector<int64_t>& numbers) {
  if (numbers.size() > kNumbers) {
    throw Error(MX_ERROR_VALUE, "[KVStore] a worker may tell " + std::to_string(kNumbers) + " numbers, got " +
                                    std::to_string(numbers.size()));
  }
  // Nobody reads the table of two turns ago: all who told of the last turn had read it.
  std::copy(numbers.begin(), numbers.end(), table(rank_, ++turns_));
  publish(Mark::kTold, turns_);
}

bool Window::told(int64_t nanoseconds) {
  return wait([this] { return reached(Mark::kTold, turns_); }, std::max<int64_t>(nanoseconds, 0));
}

void Window::least(std::vector<int64_t>& numbers) const {
  for (int64_t worker = 0; worker < workers_; ++worker) {
    const int64_t* theirs = table(worker, turns_);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::min(numbers[i], theirs[i]);
  }
}

void Window::publish(Mark mark, uint64_t value) noexcept {
  place(rank_).marks[static_cast<size_t>(mark)].store(value);
  for (int64_t worker = 0; worker < workers_; ++worker) {
    Place& other = place(worker);
    if (worker != rank_ && other.asleep.load() != 0) ring(other.bell);
  }
}

uint64_t Window::least(Mark mark) const noexcept {
  uint64_t found = UINT64_MAX;
  for (int64_t worker = 0; worker < workers_; ++worker) {
    if (worker != rank_) found = std::min(found, place(worker).marks[static_cast<size_t>(mark)].load());
  }
  return found;
}

bool Window::reached(Mark mark, uint64_t value) const noexcept { return least(mark) >= value; }

bool Window::look(const std::function<bool()>& ready, int64_t nanoseconds) const {
  const int64_t end = crowded_ ? 0 : now() + nanoseconds;
  for (;;) {
    for (int look = 0; look < kLooks; ++look) {
      if (ready()) return true;
      pause_briefly();
    }
    if (stopped() || now() >= end) return false;
  }
}

bool Window::wait(const std::function<bool()>& ready, int64_t nanoseconds) {
  if (look(ready, nanoseconds < 0 ? kAwake : std::min(nanoseconds, kAwake))) return true;
  Place& mine = place(rank_);
  const int64_t end = nanoseconds < 0 ? INT64_MAX : now() + nanoseconds;
  for (;;) {
    // In this order: whoever comes further now sees that this worker sleeps, or is seen.
    const uint32_t seen = mine.bell.load();
    mine.asleep.store(1);
    const bool there = ready();
    const int64_t left = end - now();
    if (!there && left > 0 && !stopped()) sleep_on(mine.bell, seen, std::min(left, kNap));
    mine.asleep.store(0);
    if (there || ready()) return true;
    if (left <= 0 || stopped()) return false;
  }
}

void Window::stop() noexcept {
  stopped_.store(true);
  ring(place(rank_).bell);
}

}  // namespace mx::kv
