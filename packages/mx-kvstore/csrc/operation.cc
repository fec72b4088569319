// SPDX-License-Identifier: Apache-2.0
#include "operation.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>

namespace mx::kv {

Arrays::Arrays(const mx_invoke_api* invoke, const std::vector<mx_array*>& arrays) : invoke_(invoke), arrays_(arrays) {
  for (mx_array* array : arrays_) invoke_->array_retain(invoke_->self, array);
}

Arrays::~Arrays() {
  for (mx_array* array : arrays_) invoke_->array_release(invoke_->self, array);
}

mx_tensor Arrays::tensor(size_t i, bool allocate) const {
  mx_tensor tensor{};
  mx_error error{};
  check(invoke_->array_tensor(invoke_->self, arrays_[i], allocate ? 1 : 0, &tensor, &error), error);
  return tensor;
}

namespace {

constexpr int64_t kInlineBytes = 16 << 10;  // below, an operation may run on the thread that pushes it
constexpr int64_t kSliceBytes = 2 << 20;    // of a slice, or more; below, sharing costs more than it gains
constexpr int64_t kSlicesPerWorker = 4;     // workers that are busy with other things leave slices to the others
constexpr int64_t kGrain = 64;              // elements

struct Job {
  Tables tables;
  std::shared_ptr<Loop> loop;
  Extent extent;
  const char* name;
  int32_t priority;
};

// A loop that is being run in slices.
class Shared {
 public:
  Shared(Job job, mx_completion* done, int64_t slices)
      : job_(std::move(job)), done_(done), slices_(slices), left_(slices + 1) {}

  // Pushes the slices, which read and write nothing as far as the engine knows: the operation that has the variables
  // ends when the last of them does.
  static void start(const std::shared_ptr<Shared>& shared, const mx_context& context) noexcept {
    const mx_engine_api* engine = shared->job_.tables.engine;
    for (int64_t i = 0; i < shared->slices_; ++i) {
      auto* slice = new (std::nothrow) Slice{shared, i};
      if (slice == nullptr) {
        shared->note(make_failure(MX_ERROR_MEMORY, "out of host memory"));
        shared->leave();
        continue;
      }
      mx_operation operation{};
      operation.size = sizeof operation;
      operation.context = context;
      operation.priority = shared->job_.priority;
      operation.name = shared->job_.name;
      operation.run = &Slice::run;
      operation.argument = slice;
      operation.destroy = &Slice::destroy;
      mx_failure* failure = nullptr;
      mx_error error{};
      if (engine->push(engine->self, &operation, &failure, &error) != MX_OK) {
        shared->note(make_failure(error.code, error.message));
      }
      if (failure != nullptr) failure->release(failure);  // `run` has noted it
    }
    shared->leave();
  }

 private:
  struct Slice {
    std::shared_ptr<Shared> shared;
    int64_t number;
    bool ran = false;

    static mx_failure* run(void* argument, const mx_run_context*) {
      auto* slice = static_cast<Slice*>(argument);
      slice->ran = true;
      Shared& shared = *slice->shared;
      mx_failure* failure = failing([&] {
        const auto [begin, end] = shared.range(slice->number);
        shared.job_.loop->run(begin, end);
      });
      if (failure != nullptr) shared.note(failure);
      return nullptr;  // the whole operation fails
    }
    static void destroy(void* argument) {
      const std::unique_ptr<Slice> slice(static_cast<Slice*>(argument));
      if (!slice->ran) slice->shared->note(make_failure(MX_ERROR, "[KVStore] the engine did not run a part of a sum"));
      slice->shared->leave();
    }
  };

  std::pair<int64_t, int64_t> range(int64_t number) const noexcept {
    const int64_t grains = (job_.extent.elements + kGrain - 1) / kGrain;
    const int64_t begin = grains * number / slices_ * kGrain, end = grains * (number + 1) / slices_ * kGrain;
    return {begin, std::min(end, job_.extent.elements)};
  }

  // Keeps the first failure; takes the reference.
  void note(mx_failure* failure) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_ == nullptr) {
      failure_ = failure;
    } else {
      failure->release(failure);
    }
  }

  void leave() noexcept {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (failure_ == nullptr) failure_ = failing([&] { job_.loop->finish(); });
    const mx_engine_api* engine = job_.tables.engine;
    engine->complete(engine->self, done_, std::exchange(failure_, nullptr));
  }

  const Job job_;
  mx_completion* const done_;
  const int64_t slices_;
  std::atomic<int64_t> left_;
  std::mutex mutex_;
  mx_failure* failure_ = nullptr;  // under mutex_, until all have left
};

mx_failure* run_whole(void* argument, const mx_run_context*) {
  const Job& job = *static_cast<Job*>(argument);
  return failing([&] {
    job.loop->begin();
    job.loop->run(0, job.extent.elements);
    job.loop->finish();
  });
}

void run_in_slices(void* argument, const mx_run_context* run, mx_completion* done) {
  const Job& job = *static_cast<Job*>(argument);
  const mx_engine_api* engine = job.tables.engine;
  std::shared_ptr<Shared> shared;
  mx_failure* failure = failing([&] {
    const int64_t workers = engine->workers(engine->self);
    const int64_t slices = std::min(workers * kSlicesPerWorker, job.extent.bytes / kSliceBytes);
    if (job.loop->begin() && workers > 1) {
      shared = std::make_shared<Shared>(job, done, slices);
    } else {
      job.loop->run(0, job.extent.elements);
      job.loop->finish();
    }
  });
  if (shared != nullptr) return Shared::start(shared, run->context);
  engine->complete(engine->self, done, failure);
}

void destroy(void* argument) { delete static_cast<Job*>(argument); }

}  // namespace

std::vector<mx_variable*> variables(const Arrays& arrays, const std::vector<mx_variable*>& others) {
  std::vector<mx_variable*> found;
  for (size_t i = 0; i < arrays.size(); ++i) {
    mx_variable* const variable = arrays.variable(i);
    const auto in = [&](const std::vector<mx_variable*>& list) {
      return std::find(list.begin(), list.end(), variable) != list.end();
    };
    if (!in(found) && !in(others)) found.push_back(variable);
  }
  return found;
}

void push(const Tables& tables, std::shared_ptr<Loop> loop, const Arrays& reads, const Arrays& writes, Extent extent,
          const char* name, int32_t priority) {
  const mx_engine_api* engine = tables.engine;
  const std::vector<mx_variable*> written = variables(writes, {});
  const std::vector<mx_variable*> read = variables(reads, written);
  mx_operation operation{};
  operation.size = sizeof operation;
  operation.flags = extent.bytes <= kInlineBytes ? MX_PUSH_INLINE : 0;
  operation.context = writes.tensor(0, false).context;
  operation.priority = priority;
  operation.name = engine->intern(engine->self, name);
  operation.reads = read.data();
  operation.writes = written.data();
  operation.n_reads = static_cast<uint32_t>(read.size());
  operation.n_writes = static_cast<uint32_t>(written.size());
  if (extent.bytes < 2 * kSliceBytes) {
    operation.run = &run_whole;
  } else {
    operation.run_async = &run_in_slices;
  }
  auto job = std::make_unique<Job>(Job{tables, std::move(loop), extent, operation.name, priority});
  operation.argument = job.release();
  operation.destroy = &destroy;
  mx_failure* failure = nullptr;
  mx_error error{};
  check(engine->push(engine->self, &operation, &failure, &error), error);
  if (failure != nullptr) throw FailureError{FailureRef(failure)};
}

}  // namespace mx::kv
