// SPDX-License-Identifier: Apache-2.0
//
// Workers with connections: each is a thread with links of its own.
#include "links.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mx_core/abi.h"
#include "mx_core/native_tests.hpp"

using namespace mx::kv;

namespace {

constexpr int64_t kSecond = 1'000'000'000;

using Connections = std::vector<std::pair<int, int>>;

std::vector<std::unique_ptr<Links>> linked(int64_t workers) {
  const auto count = static_cast<size_t>(workers);
  std::vector<Connections> all(count, Connections(count, {-1, -1}));
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < i; ++j) {
      int terms[2], sums[2];
      CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, terms) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sums) == 0);
      all[i][j] = {terms[0], sums[0]};
      all[j][i] = {terms[1], sums[1]};
    }
  }
  std::vector<std::unique_ptr<Links>> found;
  for (int64_t rank = 0; rank < workers; ++rank) {
    found.push_back(std::make_unique<Links>(all[static_cast<size_t>(rank)], rank));
  }
  return found;
}

// Runs `body(links)` for each worker on a thread of its own.
void with_workers(int64_t workers, const std::function<void(Links&)>& body) {
  const std::vector<std::unique_ptr<Links>> all = linked(workers);
  std::vector<std::thread> threads;
  for (const auto& links : all) threads.emplace_back([&body, &links] { body(*links); });
  for (std::thread& thread : threads) thread.join();
}

void the_least_of_what_workers_tell(int64_t workers) {
  with_workers(workers, [&](Links& links) {
    for (int64_t turn = 0; turn < 200; ++turn) {
      const auto more = static_cast<size_t>(turn % 50 * 1000);  // of more than a connection takes at once
      std::vector<int64_t> numbers{turn + links.rank(), turn - links.rank(), -turn};
      numbers.resize(3 + more, links.rank());
      links.tell(numbers);
      while (!links.told(kSecond)) CHECK(!links.failed());
      links.least(numbers);
      CHECK(numbers[0] == turn && numbers[1] == turn - workers + 1 && numbers[2] == -turn);
      CHECK(std::all_of(numbers.begin() + 3, numbers.end(), [](int64_t each) { return each == 0; }));
    }
  });
}

// Sums, first values and what workers tell, with pauses that others do not make.
void rounds_of_many_sizes(int64_t workers) {
  const std::vector<size_t> sizes{0, 1, 7, 1000, 65536, 65536 + 16, 65535, 3, 700'001};
  with_workers(workers, [&](Links& links) {
    const auto rank = static_cast<float>(links.rank());
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<int64_t> numbers{turn};
      links.tell(numbers);
      while (!links.told(kSecond)) CHECK(!links.failed());
      const int64_t root = turn % workers;
      std::vector<std::vector<float>> sent, first, second;
      std::vector<Item> items;
      for (size_t place = 0; place < sizes.size(); ++place) {
        const size_t size = sizes[place];
        sent.emplace_back(size);
        for (size_t i = 0; i < size; ++i) {
          sent.back()[i] = rank + static_cast<float>(i % 1000) + static_cast<float>(turn);
        }
        first.emplace_back(size);
        second.emplace_back(size);
        Item item;
        item.kind = (place + static_cast<size_t>(turn)) % 3 == 0 ? Kind::kFirst : Kind::kSum;
        item.root = root;
        item.dtype = MX_FLOAT32;
        item.bytes = size * sizeof(float);
        if (item.kind == Kind::kFirst) {
          first.back() = sent.back();
        } else {
          item.send = reinterpret_cast<const char*>(sent.back().data());
        }
        item.targets = {first.back().data()};
        if (place % 2 == 0) item.targets.push_back(second.back().data());
        if (place == 4 && item.kind == Kind::kSum) item.targets[0] = sent.back().data();  // in place
        items.push_back(item);
      }
      size_t next = 0;
      if ((turn + links.rank()) % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      CHECK(links.exchange(items, [&](size_t done) { CHECK(done == next++); }));
      CHECK(next == items.size());
      for (size_t place = 0; place < sizes.size(); ++place) {
        const Item& item = items[place];
        for (size_t i = 0; i < sizes[place]; ++i) {
          const float each = static_cast<float>(i % 1000) + static_cast<float>(turn);
          const auto count = static_cast<float>(workers);
          const float sum = count * each + count * (count - 1) / 2;
          const float expected = item.kind == Kind::kFirst ? each + static_cast<float>(root) : sum;
          for (const void* target : item.targets) CHECK(static_cast<const float*>(target)[i] == expected);
        }
      }
    }
  });
}

void terms_in_the_order_of_ranks(int32_t dtype) {
  constexpr int64_t kWorkers = 3;
  with_workers(kWorkers, [&](Links& links) {
    const uint16_t halves[] = {0x6800, 0x3c00, 0x3c00};  // 2048, 1, 1: 2050 is 0x6801; in steps, each 1 is lost
    const float floats[] = {1e8F, 1.0F, -1e8F};
    std::vector<uint16_t> half(100'000, halves[links.rank()]), half_sum(half.size());
    std::vector<float> single(100'000, floats[links.rank()]), single_sum(single.size());
    const bool is_half = dtype == MX_FLOAT16;
    Item item;
    item.dtype = dtype;
    item.bytes = is_half ? half.size() * 2 : single.size() * 4;
    item.send = is_half ? reinterpret_cast<const char*>(half.data()) : reinterpret_cast<const char*>(single.data());
    item.targets = {is_half ? static_cast<void*>(half_sum.data()) : single_sum.data()};
    CHECK(links.exchange({item}, [](size_t) {}));
    volatile float expected = floats[0];
    for (int i = 1; i < 3; ++i) expected = expected + floats[i];
    for (const float each : single_sum) CHECK(is_half || each == expected);
    for (const uint16_t each : half_sum) CHECK(!is_half || each == 0x6801);
  });
}

void codes_of_all(int64_t workers, Code code) {
  constexpr size_t kSize = 700'003;
  with_workers(workers, [&](Links& links) {
    std::vector<float> gradient(kSize), residual(kSize), alone(kSize), sum(kSize), other(kSize), expected(kSize);
    const Expander expander(code, 0.5F);
    for (int turn = 0; turn < 3; ++turn) {
      const auto value = [&](int64_t rank, size_t i) {
        return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 13 + static_cast<size_t>(turn)) % 21) / 10 - 1;
      };
      for (size_t i = 0; i < kSize; ++i) gradient[i] = value(links.rank(), i);
      Item item;
      item.kind = Kind::kCodes;
      item.dtype = MX_FLOAT32;
      item.bytes = kSize * sizeof(float);
      item.send = reinterpret_cast<const char*>(gradient.data());
      item.residual = residual.data();
      item.code = code;
      item.threshold = 0.5F;
      item.targets = {sum.data(), other.data()};
      CHECK(links.exchange({item}, [](size_t) {}));
      CHECK(sum == other);
      if (turn > 0) continue;  // the residuals of the others are not known here
      std::vector<uint8_t> codes(static_cast<size_t>(code_bytes(code, kSize)));
      for (int64_t rank = 0; rank < workers; ++rank) {
        std::fill(alone.begin(), alone.end(), 0.0F);
        for (size_t i = 0; i < kSize; ++i) gradient[i] = value(rank, i);
        compress(code, 0.5F, gradient.data(), alone.data(), codes.data(), kSize);
        expander(codes.data(), expected.data(), kSize, rank > 0);
        CHECK(rank != links.rank() || alone == residual);
      }
      CHECK(sum == expected);
    }
  });
}

void a_worker_that_is_gone() {
  std::vector<std::unique_ptr<Links>> all = linked(3);
  std::vector<float> sent(1'000'000, 1.0F), sum(sent.size());
  Item item;
  item.dtype = MX_FLOAT32;
  item.bytes = sent.size() * sizeof(float);
  item.send = reinterpret_cast<const char*>(sent.data());
  item.targets = {sum.data()};
  all[2].reset();
  size_t done = 0;
  CHECK(!all[0]->exchange({item}, [&](size_t) { ++done; }));
  CHECK(done == 0 && all[0]->failed() && !all[0]->stopped());
  CHECK(test::has(all[0]->broken(), "to worker 2 broke"));
  all[1]->tell({1});
  CHECK(!all[1]->told(kSecond) && test::has(all[1]->broken(), "to worker 2 broke: "));
}

void links_that_are_stopped() {
  const std::vector<std::unique_ptr<Links>> all = linked(2);
  all[0]->tell({1});
  CHECK(!all[0]->told(kSecond / 100) && !all[0]->failed());
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    all[0]->stop();
  });
  std::vector<float> sent(100, 1.0F), sum(100);
  Item item;
  item.dtype = MX_FLOAT32;
  item.bytes = 400;
  item.send = reinterpret_cast<const char*>(sent.data());
  item.targets = {sum.data()};
  CHECK(!all[0]->exchange({item}, [](size_t) { CHECK(!"nothing is complete"); }));
  other.join();
  CHECK(all[0]->stopped() && all[0]->broken().empty() && !all[0]->told(kSecond));
}

void what_does_not_fit() {
  CHECK(test::has(test::error_of([] { Links links({{-1, -1}}, 1); }, MX_ERROR_VALUE), "expected one of 1, got 1"));
}

}  // namespace

int main() {
  return test::run({
      {"the least of what 1 worker tells", [] { the_least_of_what_workers_tell(1); }},
      {"the least of what 4 workers tell", [] { the_least_of_what_workers_tell(4); }},
      {"rounds of 1 worker", [] { rounds_of_many_sizes(1); }},
      {"rounds of 2 workers", [] { rounds_of_many_sizes(2); }},
      {"rounds of 5 workers", [] { rounds_of_many_sizes(5); }},
      {"the order of floats", [] { terms_in_the_order_of_ranks(MX_FLOAT32); }},
      {"the order of halves", [] { terms_in_the_order_of_ranks(MX_FLOAT16); }},
      {"2-bit codes of 2 workers", [] { codes_of_all(2, Code::kTwoBits); }},
      {"1-bit codes of 5 workers", [] { codes_of_all(5, Code::kOneBit); }},
      {"a worker that is gone", [] { a_worker_that_is_gone(); }},
      {"links that are stopped", [] { links_that_are_stopped(); }},
      {"what does not fit", [] { what_does_not_fit(); }},
  });
}
