// SPDX-License-Identifier: Apache-2.0
//
// Workers that share memory: each is a thread with a window of its own.
#include "window.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mx_core/native_tests.hpp"
#include "mx_core/abi.h"
#include "shared_sums.hpp"

using namespace mx::kv;

namespace {

// Runs `body(window)` for each worker on a thread of its own.
void with_workers(int64_t workers, const std::function<void(Window&)>& body) {
  const int file = memfd_create("test", 0);
  CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(Window::bytes(workers))) == 0);
  std::vector<std::unique_ptr<Window>> windows;
  for (int64_t rank = 0; rank < workers; ++rank) windows.push_back(std::make_unique<Window>(file, rank, workers));
  close(file);
  std::vector<std::thread> threads;
  for (const auto& window : windows) threads.emplace_back([&body, &window] { body(*window); });
  for (std::thread& thread : threads) thread.join();
}

constexpr int64_t kSecond = 1'000'000'000;

void the_least_of_what_workers_tell(int64_t workers) {
  with_workers(workers, [&](Window& window) {
    for (int64_t turn = 0; turn < 200; ++turn) {
      std::vector<int64_t> numbers{turn + window.rank(), turn - window.rank(), -turn};
      window.tell(numbers);
      while (!window.told(kSecond)) CHECK(!window.stopped());
      window.least(numbers);
      CHECK((numbers == std::vector<int64_t>{turn, turn - workers + 1, -turn}));
    }
  });
}

void sums_of_many_sizes(int64_t workers) {
  const std::vector<size_t> sizes{0, 1, 7, 1000, 65536, 65536 + 16, 300'001};
  with_workers(workers, [&](Window& window) {
    const auto rank = static_cast<float>(window.rank());
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<std::vector<float>> sent, first, second;
      std::vector<Item> items;
      for (const size_t size : sizes) {
        sent.emplace_back(size);
        for (size_t i = 0; i < size; ++i) sent.back()[i] = rank + static_cast<float>(i % 1000) + static_cast<float>(turn);
        first.emplace_back(size);
        second.emplace_back(size);
      }
      for (size_t i = 0; i < sizes.size(); ++i) {
        Item item;
        item.dtype = MX_FLOAT32;
        item.bytes = sizes[i] * sizeof(float);
        item.send = reinterpret_cast<const char*>(sent[i].data());
        item.targets = {i % 2 == 0 ? sent[i].data() : first[i].data(), second[i].data()};  // in place, and not
        items.push_back(item);
      }
      size_t next = 0;
      CHECK(exchange(window, items, [&](size_t i) { CHECK(i == next++); }));
      CHECK(next == items.size());
      const auto all = static_cast<float>(workers);
      for (size_t i = 0; i < sizes.size(); ++i) {
        const std::vector<float>& target = i % 2 == 0 ? sent[i] : first[i];
        for (size_t j = 0; j < sizes[i]; ++j) {
          const float expected = all * (static_cast<float>(j % 1000) + static_cast<float>(turn)) + all * (all - 1) / 2;
          CHECK(target[j] == expected && second[i][j] == expected);
        }
      }
    }
  });
}

// Another worker may add a chunk before the one that wrote it does, which then has still to read its own terms.
void terms_stay_until_their_worker_has_added_them_too() {
  const int file = memfd_create("test", 0);
  CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(Window::bytes(2))) == 0);
  Window mine(file, 0, 2), other(file, 1, 2);
  close(file);
  for (Window* window : {&mine, &other}) {
    CHECK(window->claim(Slot::kTerms, 0));
    window->publish(Mark::kWritten, 1);
  }
  other.publish(Mark::kSummed, 1);
  CHECK(mine.claim(Slot::kTerms, 1));
  CHECK(mine.memory(Slot::kTerms, 0, 1) != mine.memory(Slot::kTerms, 0, 0));
  mine.publish(Mark::kSummed, 1);
  CHECK(mine.claim(Slot::kTerms, 2));
  CHECK(mine.memory(Slot::kTerms, 0, 2) == mine.memory(Slot::kTerms, 0, 0));  // now it is free
}

void a_worker_is_not_too_far_ahead_of_itself() {
  with_workers(1, [](Window& window) {
    for (uint64_t chunk = 0; chunk < Window::kSlots; ++chunk) CHECK(window.claim(Slot::kTerms, chunk));
    CHECK(!window.has_free(Slot::kTerms) && !window.claim(Slot::kTerms, Window::kSlots));
    window.publish(Mark::kSummed, 1);
    CHECK(window.claim(Slot::kTerms, Window::kSlots));
  });
}

// Small items, so that workers are often at the same place: what each has is told by its rank, its turn and its number.
void codes_and_first_values_of_many_items(int64_t workers) {
  constexpr size_t kItems = 64, kSize = 24;
  with_workers(workers, [&](Window& window) {
    const int64_t rank = window.rank();
    std::vector<std::vector<float>> sent(kItems), residual(kItems), first(kItems), second(kItems);
    for (size_t i = 0; i < kItems; ++i) {
      for (auto* each : {&sent[i], &residual[i], &first[i], &second[i]}) each->resize(kSize);
    }
    const auto sign = [](int64_t worker, int turn, size_t item, size_t at) {
      return (static_cast<size_t>(worker) * 5 + static_cast<size_t>(turn) + item + at) % 3 == 0 ? 0.5F : -0.5F;
    };
    for (int turn = 0; turn < 300; ++turn) {
      std::vector<Item> items(kItems);
      for (size_t i = 0; i < kItems; ++i) {
        Item& item = items[i];
        item.kind = i % 4 == 3 ? Kind::kFirst : Kind::kCodes;
        item.dtype = MX_FLOAT32;
        item.bytes = kSize * sizeof(float);
        item.send = reinterpret_cast<const char*>(sent[i].data());
        item.targets = {first[i].data(), second[i].data()};
        item.residual = residual[i].data();
        item.code = Code::kTwoBits;
        item.threshold = 0.5F;
        for (size_t at = 0; at < kSize; ++at) {
          sent[i][at] = first[i][at] = sign(rank, turn, i, at);
          residual[i][at] = 0;
        }
      }
      CHECK(exchange(window, items, [](size_t) {}));
      for (size_t i = 0; i < kItems; ++i) {
        for (size_t at = 0; at < kSize; ++at) {
          float expected = 0;
          for (int64_t worker = 0; worker < (i % 4 == 3 ? 1 : workers); ++worker) expected += sign(worker, turn, i, at);
          CHECK(first[i][at] == expected && second[i][at] == expected && residual[i][at] == 0);
        }
      }
    }
  });
}

void a_worker_whose_others_do_not_run_goes_ahead() {
  with_workers(2, [](Window& window) {
    constexpr uint64_t ahead = Window::kSlots;
    if (window.rank() == 1) {
      CHECK(window.wait([&] { return window.reached(Mark::kWritten, ahead); }, 60 * kSecond));
    }
    std::vector<float> values((ahead + 3) * Window::kChunk / sizeof(float), static_cast<float>(window.rank() + 1));
    Item item;
    item.dtype = MX_FLOAT32;
    item.bytes = values.size() * sizeof(float);
    item.send = reinterpret_cast<const char*>(values.data());
    item.targets = {values.data()};
    CHECK(exchange(window, {item}, [](size_t) {}));
    CHECK(std::all_of(values.begin(), values.end(), [](float value) { return value == 3.0F; }));
  });
}

void a_window_that_is_stopped_ends_its_waits() {
  with_workers(2, [](Window& window) {
    if (window.rank() == 1) return;  // never comes
    std::thread other([&window] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      window.stop();
    });
    std::vector<float> values(500'000, 1.0f);
    Item item;
    item.dtype = MX_FLOAT32;
    item.bytes = values.size() * sizeof(float);
    item.send = reinterpret_cast<const char*>(values.data());
    item.targets = {values.data()};
    CHECK(!exchange(window, {item}, [](size_t) { CHECK(!"an item is complete"); }));
    CHECK(std::all_of(values.begin(), values.end(), [](float value) { return value == 1.0f; }));
    other.join();
  });
}

void what_does_not_fit_is_refused() {
  const int file = memfd_create("test", 0);
  CHECK(test::has(test::error_of([&] { Window(file, 0, 2); }), "bytes, got 0"));
  CHECK(test::has(test::error_of([&] { Window(file, 3, 2); }), "expected one of 2, got 3"));
  close(file);
  with_workers(1, [](Window& window) {
    const std::vector<int64_t> numbers(Window::kNumbers + 1);
    CHECK(test::has(test::error_of([&] { window.tell(numbers); }), "may tell 65536 numbers, got 65537"));
  });
}

}  // namespace

int main() {
  return test::run({
      {"the least of what 1 worker tells", [] { the_least_of_what_workers_tell(1); }},
      {"the least of what 4 workers tell", [] { the_least_of_what_workers_tell(4); }},
      {"sums of 1 worker", [] { sums_of_many_sizes(1); }},
      {"sums of 2 workers", [] { sums_of_many_sizes(2); }},
      {"sums of 5 workers", [] { sums_of_many_sizes(5); }},
      {"terms that their worker has not added", terms_stay_until_their_worker_has_added_them_too},
      {"terms of one worker", a_worker_is_not_too_far_ahead_of_itself},
      {"codes and first values of 2 workers", [] { codes_and_first_values_of_many_items(2); }},
      {"codes and first values of 5 workers", [] { codes_and_first_values_of_many_items(5); }},
      {"a worker whose others do not run", a_worker_whose_others_do_not_run_goes_ahead},
      {"a window that is stopped", a_window_that_is_stopped_ends_its_waits},
      {"what does not fit", what_does_not_fit_is_refused},
  });
}
