// SPDX-License-Identifier: Apache-2.0
//
// Workers that see each other's arrays: each is a thread with a file of its own, which all have mapped.
#include "direct_sums.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "mx_core/abi.h"
#include "mx_core/failure.hpp"
#include "mx_core/half.hpp"
#include "mx_core/native_tests.hpp"
#include "neighbours.hpp"

using namespace mx::kv;

namespace {

constexpr size_t kSpan = 64 << 20;
constexpr int64_t kSecond = 1'000'000'000;

// A storage manager of one worker, which has every array in its file from the beginning.
class Memory {
 public:
  Memory() : file_(memfd_create("test", 0)) {
    CHECK(file_ >= 0 && ftruncate(file_, kSpan) == 0);
    memory_ = static_cast<char*>(mmap(nullptr, kSpan, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
    CHECK(memory_ != MAP_FAILED);
    table_.head = {sizeof table_, MX_SHARED_MAJOR, MX_SHARED_MINOR};
    table_.self = this;
    table_.segment = [](void* self, const void* data, mx_segment* segment, mx_error* error) {
      const auto& memory = *static_cast<const Memory*>(self);
      return mx::guarded(error, [&] { *segment = memory.segment(static_cast<const char*>(data)); });
    };
  }
  ~Memory() {
    munmap(memory_, kSpan);
    close(file_);
  }

  int file() const noexcept { return file_; }
  const mx_shared_api* table() const noexcept { return &table_; }
  template <class T>
  T* take(size_t size) {
    char* const taken = memory_ + used_;
    used_ += (size * sizeof(T) + 4095) / 4096 * 4096;
    CHECK(used_ <= kSpan);
    return reinterpret_cast<T*>(taken);
  }

 private:
  mx_segment segment(const char* data) const {
    if (data != nullptr && (data < memory_ || data >= memory_ + kSpan)) throw mx::Error(MX_ERROR_VALUE, "not here");
    return {sizeof(mx_segment), file_, kSpan, 0, data == nullptr ? 0 : static_cast<uint64_t>(data - memory_)};
  }

  const int file_;
  char* memory_ = nullptr;
  size_t used_ = 0;
  mx_shared_api table_{};
};

void with_workers(int64_t workers, const std::function<void(Window&, Memory&)>& body) {
  const int file = memfd_create("test", 0);
  CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(Window::bytes(workers))) == 0);
  std::vector<std::unique_ptr<Window>> windows;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<int> files;
  for (int64_t rank = 0; rank < workers; ++rank) {
    windows.push_back(std::make_unique<Window>(file, rank, workers));
    memories.push_back(std::make_unique<Memory>());
    files.push_back(memories.back()->file());
  }
  close(file);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < windows.size(); ++i) {
    windows[i]->see(std::make_shared<Neighbours>(nullptr, memories[i]->table(), files));
    threads.emplace_back([&, i] { body(*windows[i], *memories[i]); });
  }
  for (std::thread& thread : threads) thread.join();
}

template <class T>
Item item_of(int32_t dtype, size_t size, const T* send, std::vector<void*> targets) {
  Item item;
  item.dtype = dtype;
  item.bytes = size * sizeof(T);
  item.send = reinterpret_cast<const char*>(send);
  item.targets = std::move(targets);
  return item;
}

float value_of(int64_t worker, size_t at) {
  return 1.1F * static_cast<float>(worker + 1) + 0.37F * static_cast<float>(at % 1013);
}

float total_of(int64_t workers, size_t at) {
  float total = value_of(0, at);
  for (int64_t worker = 1; worker < workers; ++worker) total += value_of(worker, at);
  return total;
}

// In place, to one target and to two; small ones and private ones among them, which pass through slots.
void sums_have_the_bits_of_sums_in_the_order_of_ranks(int64_t workers) {
  constexpr size_t kSize = 300'007;
  with_workers(workers, [&](Window& window, Memory& memory) {
    float* const first = memory.take<float>(kSize);
    float* const second = memory.take<float>(kSize);
    float* const third = memory.take<float>(kSize);
    float* const fourth = memory.take<float>(kSize);
    std::vector<float> mine(kSize), small(1000);
    for (int turn = 0; turn < 20; ++turn) {
      for (size_t i = 0; i < kSize; ++i) first[i] = second[i] = mine[i] = value_of(window.rank(), i);
      std::copy(mine.begin(), mine.begin() + 1000, small.begin());
      const std::vector<Item> items{
          item_of<float>(MX_FLOAT32, 1000, small.data(), {small.data()}),
          item_of<float>(MX_FLOAT32, kSize, first, {first}),
          item_of<float>(MX_FLOAT32, kSize, mine.data(), {mine.data()}),
          item_of<float>(MX_FLOAT32, kSize, second, {third, fourth}),
      };
      std::vector<Direct> direct;
      CHECK(find_direct(window, items, direct) && direct.size() == 2);
      CHECK(direct[0].item == 1 && direct[1].item == 3);
      CHECK(direct[1].targets.size() == 2 * static_cast<size_t>(workers));
      std::vector<int> done(items.size());
      CHECK(exchange(window, items, [&](size_t i) { ++done[i]; }));
      CHECK(done == std::vector<int>(items.size(), 1));
      for (size_t i = 0; i < kSize; ++i) {
        const float expected = total_of(workers, i);
        CHECK(first[i] == expected && mine[i] == expected && third[i] == expected && fourth[i] == expected);
        CHECK(second[i] == value_of(window.rank(), i) && (i >= 1000 || small[i] == expected));
      }
    }
  });
}

void halves_are_added_in_float32() {
  constexpr size_t kSize = 700'001;
  with_workers(3, [&](Window& window, Memory& memory) {
    auto* const values = memory.take<mx::Float16>(kSize);
    for (size_t i = 0; i < kSize; ++i) values[i] = static_cast<mx::Float16>(value_of(window.rank(), i));
    CHECK(exchange(window, {item_of<mx::Float16>(MX_FLOAT16, kSize, values, {values})}, [](size_t) {}));
    for (size_t i = 0; i < kSize; ++i) {
      float total = 0;
      for (int64_t worker = 0; worker < 3; ++worker) {
        total += static_cast<float>(static_cast<mx::Float16>(value_of(worker, i)));
      }
      CHECK(static_cast<float>(values[i]) == static_cast<float>(static_cast<mx::Float16>(total)));
    }
  });
}

// One worker's array is private, or it has more targets than it can tell: then all of them pass through slots.
void what_one_worker_cannot_show_goes_another_way() {
  constexpr size_t kSize = 300'000;
  with_workers(2, [&](Window& window, Memory& memory) {
    const bool first = window.rank() == 0;
    std::vector<float> own(kSize);
    float* const values = memory.take<float>(kSize);
    float* const given = first ? own.data() : values;
    float* const again = memory.take<float>(kSize);
    std::vector<std::vector<float>> more(4, std::vector<float>(kSize));
    std::fill(given, given + kSize, first ? 1.0F : 2.0F);
    std::fill(again, again + kSize, first ? 1.0F : 2.0F);
    std::vector<void*> targets{again};
    if (first) {
      for (auto& each : more) targets.push_back(each.data());
    }
    const std::vector<Item> items{item_of<float>(MX_FLOAT32, kSize, given, {given}),
                                  item_of<float>(MX_FLOAT32, kSize, again, targets)};
    std::vector<Direct> direct;
    CHECK(find_direct(window, items, direct) && direct.empty());
    CHECK(exchange(window, items, [](size_t) {}));
    for (size_t i = 0; i < kSize; ++i) CHECK(given[i] == 3.0F && again[i] == 3.0F && (!first || more[3][i] == 3.0F));
  });
}

void a_worker_that_only_gives_has_no_target() {
  constexpr size_t kSize = 400'000;
  with_workers(2, [&](Window& window, Memory& memory) {
    float* const values = memory.take<float>(kSize);
    std::fill(values, values + kSize, static_cast<float>(window.rank() + 1));
    std::vector<void*> targets;
    if (window.rank() == 1) targets.push_back(values);
    CHECK(exchange(window, {item_of<float>(MX_FLOAT32, kSize, values, targets)}, [](size_t) {}));
    CHECK(std::all_of(values, values + kSize, [&](float each) { return each == (window.rank() == 1 ? 3.0F : 1.0F); }));
  });
}

void a_window_that_is_stopped_ends_its_waits() {
  constexpr size_t kSize = 500'000;
  with_workers(2, [&](Window& window, Memory& memory) {
    float* const values = memory.take<float>(kSize);
    const std::vector<Item> items{item_of<float>(MX_FLOAT32, kSize, values, {values})};
    std::vector<Direct> direct;
    CHECK(find_direct(window, items, direct) && direct.size() == 1);
    if (window.rank() == 1) return;  // adds nothing
    std::thread other([&window] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      window.stop();
    });
    CHECK(!sum_direct(window, items, direct, [](size_t) { CHECK(!"an item is complete"); }));
    CHECK(!find_direct(window, items, direct));
    other.join();
  });
}

void files_that_cannot_be_mapped_are_refused() {
  const Memory memory;
  CHECK(test::has(test::error_of([&] { Neighbours(nullptr, memory.table(), {memory.file(), -1}); }), "mmap"));
}

}  // namespace

int main() {
  return test::run({
      {"sums of 1 worker", [] { sums_have_the_bits_of_sums_in_the_order_of_ranks(1); }},
      {"sums of 2 workers", [] { sums_have_the_bits_of_sums_in_the_order_of_ranks(2); }},
      {"sums of 5 workers", [] { sums_have_the_bits_of_sums_in_the_order_of_ranks(5); }},
      {"halves", halves_are_added_in_float32},
      {"what one worker cannot show", what_one_worker_cannot_show_goes_another_way},
      {"a worker that only gives", a_worker_that_only_gives_has_no_target},
      {"a window that is stopped", a_window_that_is_stopped_ends_its_waits},
      {"files that cannot be mapped", files_that_cannot_be_mapped_are_refused},
  });
}
