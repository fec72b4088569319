// SPDX-License-Identifier: Apache-2.0
//
// NCCL for the fake driver: real sums and copies of its memory.  As NCCL's do, the parts of a group wait for each other
// on their streams, so one that is missing or enqueued in another order never ends.
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulation.hpp"
#include "fake_cuda.hpp"

namespace {

enum { kOk = 0, kCudaFailed = 1, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteFailed = 6 };

struct Communicator {
  int rank, size;
};

// What tests want to go wrong: function, result, calls before.
struct Failure {
  std::string symbol;
  int result = kOk, skip = 0;
};
std::mutex failing;
Failure failure;               // guarded by `failing`
std::atomic<int> living{0};    // communicators
std::atomic<int> broken{kOk};  // of every communicator, since something failed on a GPU

int injected(const char* symbol) {
  const std::lock_guard<std::mutex> lock(failing);
  if (failure.symbol != symbol || failure.skip-- > 0) return kOk;
  failure.symbol.clear();
  return failure.result;
}

struct Part {
  unsigned long long from, to;
  size_t count;
  int type, root, rank;
  bool sums;
  void* stream;
};

// Parts of one call on all GPUs.
struct Group {
  std::vector<Part> parts;
  std::mutex mutex;
  std::condition_variable changed;
  size_t arrived = 0;
  bool done = false;
};

std::atomic<bool> open{false};  // a group of any thread is
thread_local bool grouping = false;
thread_local std::vector<Part> pending;
thread_local int expected = 0;

size_t width(int type) {
  const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return widths[type];
}
template <class T> T* host(unsigned long long address) { return reinterpret_cast<T*>(address & ~kFakeDeviceBit); }

template <class T> void add(const std::vector<Part>& parts, const Part& root) {
  std::vector<T> sums(root.count);
  for (const Part& part : parts) {
    for (size_t i = 0; i < root.count; ++i) sums[i] = static_cast<T>(sums[i] + host<T>(part.from)[i]);
  }
  std::memcpy(host<T>(root.to), sums.data(), sums.size() * sizeof(T));
}

float widened(mx::half x) { return mx::widen(x); }
float widened(mx::bfloat16 x) { return mx::widen(x); }
template <class T, class Narrow> void add_16(const std::vector<Part>& parts, const Part& root, Narrow narrow) {
  for (size_t i = 0; i < root.count; ++i) {
    T sum = narrow(0);
    for (const Part& part : parts) sum = narrow(widened(sum) + widened(host<T>(part.from)[i]));
    host<T>(root.to)[i] = sum;
  }
}

void compute(const std::vector<Part>& parts) {
  const Part& root = parts[static_cast<size_t>(parts[0].root)];
  if (!root.sums) {
    for (const Part& part : parts) {
      std::memmove(host<char>(part.to), host<char>(root.from), root.count * width(root.type));
    }
    return;
  }
  switch (root.type) {
    case 0: return add<signed char>(parts, root);
    case 1: return add<unsigned char>(parts, root);
    case 2: return add<int>(parts, root);
    case 4: return add<long long>(parts, root);
    case 6: return add_16<mx::half>(parts, root, mx::to_half);
    case 7: return add<float>(parts, root);
    case 8: return add<double>(parts, root);
    default: return add_16<mx::bfloat16>(parts, root, mx::to_bfloat16);
  }
}

void meet(Group& group) {
  std::unique_lock<std::mutex> lock(group.mutex);
  if (++group.arrived == group.parts.size()) {
    compute(group.parts);
    group.done = true;
    group.changed.notify_all();
  }
  group.changed.wait(lock, [&] { return group.done; });
}

int enqueue(const Part& part, const Communicator* communicator) {
  if (const int result = injected(part.sums ? "ncclReduce" : "ncclBroadcast")) return result;
  if (!grouping || part.stream == nullptr || part.rank != static_cast<int>(pending.size())) return kInvalidUsage;
  const bool reads = !part.sums ? part.rank == part.root : true, writes = part.sums ? part.rank == part.root : true;
  const size_t bytes = part.count * width(part.type);
  if ((reads && fake_owns(part.from, bytes) == 0) || (writes && fake_owns(part.to, bytes) == 0)) return kInvalidArgument;
  expected = communicator->size;
  pending.push_back(part);
  return kOk;
}

unsigned long long address(const void* data) { return reinterpret_cast<unsigned long long>(data); }

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22809;
  return kOk;
}
const char* ncclGetErrorString(int result) {
  switch (result) {
    case kCudaFailed: return "unhandled cuda error";
    case kInvalidArgument: return "invalid argument";
    case kRemoteFailed: return "remote process exited or there was a network error";
    default: return "invalid usage";
  }
}

// For tests: the call of a function after `skip` others fails; what communicators say of themselves; their number.
void fake_nccl_fail(const char* symbol, int result, int skip) {
  const std::lock_guard<std::mutex> lock(failing);
  failure = {symbol, result, skip};
}
void fake_nccl_break(int result) { broken.store(result); }
int fake_nccl_living() { return living.load(); }

int ncclCommInitAll(Communicator** made, int n, const int*) {
  if (const char* seconds = std::getenv("FAKE_NCCL_INIT_SECONDS")) ::sleep(std::atoi(seconds));
  if (const int result = injected("ncclCommInitAll")) return result;
  for (int i = 0; i < n; ++i) made[i] = new Communicator{i, n};
  living += n;
  return kOk;
}
int ncclCommGetAsyncError(Communicator*, int* result) {
  *result = broken.load();
  return kOk;
}
int ncclCommAbort(Communicator* communicator) {
  delete communicator;
  --living;
  return kOk;
}
int ncclGroupStart() {
  // groups of two threads may be enqueued in one order on a GPU and in the other on the next
  if (open.exchange(true)) return kInvalidUsage;
  if (const char* microseconds = std::getenv("FAKE_NCCL_GROUP_MICROSECONDS")) ::usleep(std::atoi(microseconds));
  grouping = true;
  pending.clear();
  return kOk;
}
int ncclGroupEnd() {
  grouping = false;
  open.store(false);
  if (pending.size() != static_cast<size_t>(expected)) return kInvalidUsage;
  if (const int result = injected("ncclGroupEnd")) return result;
  const auto group = std::make_shared<Group>();
  group->parts = pending;
  for (const Part& part : group->parts) {
    auto* held = new std::shared_ptr<Group>(group);
    fake_enqueue(
        part.stream, [](void* argument) { meet(**static_cast<std::shared_ptr<Group>*>(argument)); }, held,
        [](void* argument) { delete static_cast<std::shared_ptr<Group>*>(argument); });
  }
  return kOk;
}
int ncclReduce(const void* from, void* to, size_t count, int type, int, int root, Communicator* c, void* stream) {
  return enqueue({address(from), address(to), count, type, root, c->rank, true, stream}, c);
}
int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Communicator* c, void* stream) {
  return enqueue({address(from), address(to), count, type, root, c->rank, false, stream}, c);
}

}  // extern "C"
