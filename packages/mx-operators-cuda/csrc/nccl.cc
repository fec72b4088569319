// SPDX-License-Identifier: Apache-2.0
#include "nccl.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "array_task.hpp"
#include "gpu.hpp"
#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

// Source: NCCL's API, 2.18.
using Communicator = struct CommunicatorTag*;
constexpr int kSum = 0;         // ncclRedOp_t
constexpr int kInProgress = 7;  // ncclResult_t

struct Functions {
  int (*version)(int* version);
  const char* (*error_text)(int result);
  int (*init_all)(Communicator* made, int n, const int* gpus);
  int (*async_error)(Communicator communicator, int* result);
  int (*abort)(Communicator communicator);
  int (*group_start)();
  int (*group_end)();
  int (*reduce)(const void* from, void* to, size_t count, int type, int operation, int root, Communicator communicator,
                Stream stream);
  int (*broadcast)(const void* from, void* to, size_t count, int type, int root, Communicator communicator,
                   Stream stream);
};

// GPUs that work together, each on a stream of its own.  Never unmade, but for communicators that failed: parts of a
// sum may have begun on some GPUs then, and no other sum can be enqueued behind them.
struct Clique {
  std::atomic<bool> ready{false};
  std::mutex mutex;  // guards all that follows; what is enqueued has the same order on all of them
  std::vector<Communicator> communicators;
  std::vector<Stream> streams;
  std::string failure;  // of before; empty: none
};

struct Nccl {
  Functions nccl;
  std::mutex mutex;  // guards `cliques`
  std::map<std::vector<int>, std::unique_ptr<Clique>> cliques;
  std::mutex enqueuing;  // cliques that share GPUs enqueue in the same order on all of them
};
std::atomic<Nccl*> loaded{nullptr};  // never unloaded

template <class F> void find(void* library, const std::string& path, const char* symbol, F* function) {
  *function = reinterpret_cast<F>(::dlsym(library, symbol));
  if (*function == nullptr) throw Error(MX_ERROR, "[gpu] NCCL: " + path + " has no " + symbol);
}

Nccl& nccl() {
  Nccl* found = loaded.load();
  if (found == nullptr) throw Error(MX_ERROR, "[gpu] NCCL is not loaded");
  return *found;
}

std::string failure_text(int result, const char* what) {
  return std::string(what) + ": " + nccl().nccl.error_text(result) + " (" + std::to_string(result) + ")";
}
void check_result(int result, const char* what) {
  if (result != 0) throw Error(MX_ERROR, "[gpu] " + failure_text(result, what));
}

// ncclDataType_t
int type_of(int32_t dtype) {
  switch (dtype) {
    case MX_INT8: return 0;
    case MX_UINT8: return 1;
    case MX_INT32: return 2;
    case MX_INT64: return 4;
    case MX_FLOAT16: return 6;
    case MX_FLOAT32: return 7;
    case MX_FLOAT64: return 8;
    case MX_BFLOAT16: return 9;
    default: throw Error(MX_ERROR_UNSUPPORTED, "[gpu] NCCL has no type for type code " + std::to_string(dtype));
  }
}

Clique& clique_of(const std::vector<int>& gpus) {
  Nccl& all = nccl();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::unique_ptr<Clique>& known = all.cliques[gpus];
  if (known == nullptr) known = std::make_unique<Clique>();
  return *known;
}

// Locked: makes streams and communicators, which may take seconds.
void set_up(Clique& clique, const std::vector<int>& gpus) {
  for (size_t i = clique.streams.size(); i < gpus.size(); ++i) {
    const Gpu& gpu = Gpu::at(gpus[i]);
    const Current current(gpu);
    Stream stream = nullptr;
    check(gpu.cuda().stream_create(&stream, kStreamNonBlocking), gpu.name(), "cuStreamCreate");
    clique.streams.push_back(stream);
  }
  std::vector<Communicator> made(gpus.size());
  check_result(nccl().nccl.init_all(made.data(), static_cast<int>(gpus.size()), gpus.data()), "ncclCommInitAll");
  clique.communicators = std::move(made);
  clique.ready.store(true);
}

// Locked.
void give_up(Clique& clique, std::string failure) {
  clique.failure = std::move(failure);
  for (const Communicator each : clique.communicators) nccl().nccl.abort(each);
  clique.communicators.clear();
}

std::string names_of(const std::vector<int>& gpus) {
  std::string names;
  for (const int id : gpus) names += (names.empty() ? "" : ", ") + name_of({MX_GPU, id});
  return names;
}

// Locked: refuses to go on after a failure.  Every communicator says whether something failed on its GPU since it was
// made; all are aborted then, which ends what still runs.
void check_clique(Clique& clique, const std::vector<int>& gpus) {
  for (size_t i = 0; clique.failure.empty() && i < clique.communicators.size(); ++i) {
    int result = 0;
    check_result(nccl().nccl.async_error(clique.communicators[i], &result), "ncclCommGetAsyncError");
    if (result != 0 && result != kInProgress) give_up(clique, failure_text(result, "NCCL"));
  }
  if (clique.failure.empty()) return;
  throw Error(MX_ERROR, "[gpu] NCCL has failed on " + names_of(gpus) + " and is not used there any more: " +
                            clique.failure + "; start the program again");
}

// Array 0 is the root, the others are in the order of the clique.
class CollectiveTask final : public ArrayTask {
 public:
  CollectiveTask(const mx_invoke_api* invoke, Collective what, std::vector<Use> uses)
      : ArrayTask(invoke, std::move(uses)), what_(what) {}

  void prepare(size_t n) {
    const mx_tensor root = tensor(0);
    type_ = type_of(root.dtype);
    elements_ = 1;
    for (int32_t axis = 0; axis < root.ndim; ++axis) elements_ *= static_cast<size_t>(root.shape[axis]);
    for (size_t i = 1; i <= n; ++i) {
      const mx_tensor one = tensor(i);
      if (one.bytes != root.bytes || one.dtype != root.dtype) {
        throw Error(MX_ERROR_SHAPE, "[gpu] NCCL: arrays of " + std::to_string(root.bytes) + " and " +
                                        std::to_string(one.bytes) + " bytes");
      }
      if (one.context.type != MX_GPU || (!gpus_.empty() && one.context.id <= gpus_.back())) {
        throw Error(MX_ERROR_VALUE, "[gpu] NCCL: array " + std::to_string(i - 1) + " lies on " + name_of(one.context) +
                                        "; expected different GPUs in ascending order");
      }
      gpus_.push_back(one.context.id);
    }
    const auto at = std::find(gpus_.begin(), gpus_.end(), root.context.id);
    if (root.context.type != MX_GPU || at == gpus_.end()) {
      throw Error(MX_ERROR_VALUE, "[gpu] NCCL: no array lies on " + name_of(root.context));
    }
    root_ = static_cast<int>(at - gpus_.begin());
  }
  int gpu() const { return gpus_[static_cast<size_t>(root_)]; }
  bool takes_long() const override { return !clique_of(gpus_).ready.load(); }

  void run(const mx_run_context& context) const override {
    const auto stream = static_cast<Stream>(context.stream);
    Gpu& gpu = Gpu::at(this->gpu());  // refuses in a forked child
    if (elements_ == 0) return;
    for (const int id : gpus_) {
      if (Gpu::at(id).recorded() != nullptr) {
        throw Error(MX_ERROR_UNSUPPORTED, "[CapturedStep] gpu(" + std::to_string(id) + "): NCCL cannot be captured");
      }
    }
    Clique& clique = clique_of(gpus_);
    const std::lock_guard<std::mutex> lock(clique.mutex);
    if (!clique.ready.load()) set_up(clique, gpus_);
    check_clique(clique, gpus_);
    follow(gpu, stream, clique.streams);
    enqueue(clique);
    for (size_t i = 0; i < gpus_.size(); ++i) follow(Gpu::at(gpus_[i]), clique.streams[i], {stream});
  }

 private:
  // Makes streams wait for one of a GPU.
  static void follow(Gpu& gpu, Stream ahead, const std::vector<Stream>& streams) {
    const Current current(gpu);
    mx_token* token = gpu.record(ahead);
    Result result = kSuccess;
    for (Stream stream : streams) {
      if (result == kSuccess) result = gpu.cuda().stream_wait(stream, token->event, 0);
    }
    gpu.recycle(token);
    check(result, gpu.name(), "cuStreamWaitEvent");
  }

  void enqueue(Clique& clique) const {
    const Functions& f = nccl().nccl;
    void* root = tensor(0, true).data;
    std::vector<void*> memory;
    for (size_t i = 0; i < gpus_.size(); ++i) memory.push_back(tensor(i + 1, true).data);
    const std::lock_guard<std::mutex> lock(nccl().enqueuing);
    check_result(f.group_start(), "ncclGroupStart");
    const char* what = what_ == Collective::kReduce ? "ncclReduce" : "ncclBroadcast";
    int first = 0;
    for (size_t i = 0; i < gpus_.size(); ++i) {
      void* own = memory[i];
      const bool here = static_cast<int>(i) == root_;
      const int result =
          what_ == Collective::kReduce
              ? f.reduce(own, here ? root : own, elements_, type_, kSum, root_, clique.communicators[i],
                         clique.streams[i])
              : f.broadcast(here ? root : own, own, elements_, type_, root_, clique.communicators[i],
                            clique.streams[i]);
      if (first == 0) first = result;
    }
    const int ended = f.group_end();
    if (first == 0 && ended == 0) return;
    give_up(clique, first != 0 ? failure_text(first, what) : failure_text(ended, "ncclGroupEnd"));
    throw Error(MX_ERROR, "[gpu] " + clique.failure);
  }

  const Collective what_;
  std::vector<int> gpus_;
  int root_ = 0;
  int type_ = 0;
  size_t elements_ = 0;
};

}  // namespace

void load_nccl(const std::string& path) {
  static std::mutex loading;
  const std::lock_guard<std::mutex> lock(loading);
  if (loaded.load() != nullptr) return;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(MX_ERROR, std::string("[gpu] NCCL: ") + ::dlerror());
  auto made = std::make_unique<Nccl>();
  find(library, path, "ncclGetVersion", &made->nccl.version);
  find(library, path, "ncclGetErrorString", &made->nccl.error_text);
  find(library, path, "ncclCommInitAll", &made->nccl.init_all);
  find(library, path, "ncclCommGetAsyncError", &made->nccl.async_error);
  find(library, path, "ncclCommAbort", &made->nccl.abort);
  find(library, path, "ncclGroupStart", &made->nccl.group_start);
  find(library, path, "ncclGroupEnd", &made->nccl.group_end);
  find(library, path, "ncclReduce", &made->nccl.reduce);
  find(library, path, "ncclBroadcast", &made->nccl.broadcast);
  loaded.store(made.release());
}

int nccl_version() {
  int version = 0;
  check_result(nccl().nccl.version(&version), "ncclGetVersion");
  return version;
}

void push(const mx_engine_api* engine, const mx_invoke_api* invoke, Collective what,
          const std::vector<mx_array*>& arrays, mx_array* root, int32_t priority) {
  const bool reduces = what == Collective::kReduce;
  std::vector<Use> uses{{root, reduces}};
  for (mx_array* array : arrays) uses.push_back({array, !reduces});
  auto task = std::make_unique<CollectiveTask>(invoke, what, std::move(uses));
  task->prepare(arrays.size());
  const int gpu = task->gpu();
  push(engine, std::move(task), reduces ? "ncclReduce" : "ncclBroadcast", gpu, priority);
}

}  // namespace mx::cuda
