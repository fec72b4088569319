// SPDX-License-Identifier: Apache-2.0
#include "workspace.hpp"

#include <list>
#include <mutex>
#include <new>
#include <vector>

#include "leaf_mutex.hpp"

namespace mx::nd {
namespace {

void free_blocks(const mx_block* blocks, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) {
    const mx_storage_api* storage = Runtime::instance().storage(blocks[i].context.type);
    storage->free(storage->self, &blocks[i]);
  }
}

// Blocks of launched runs, each with the point of its stream after which they are free.
class Retired {
 public:
  static Retired& instance() noexcept {
    static auto* retired = new Retired;
    return *retired;
  }

  void add(const mx_device_api* device, mx_token* token, const mx_block* blocks, size_t n) {
    std::list<Run> run;
    run.push_back({device, token, {blocks, blocks + n}});
    std::lock_guard<std::mutex> lock(leaf_mutex<Retired>());
    runs_.splice(runs_.end(), run);
  }

  // Frees what is reached; with `wait` everything.
  void reclaim(bool wait) noexcept {
    std::list<Run> finished;
    {
      std::lock_guard<std::mutex> lock(leaf_mutex<Retired>());
      for (auto run = runs_.begin(); run != runs_.end();) {
        const auto next = std::next(run);
        if (wait || run->device->reached(run->device->self, run->token) != 0) {
          finished.splice(finished.end(), runs_, run);
        }
        run = next;
      }
    }
    for (const Run& run : finished) {
      mx_error error{};
      // A stream that failed has stopped, so its memory is free all the same.
      if (wait) run.device->wait(run.device->self, run.token, &error);
      run.device->release(run.device->self, run.token);
      free_blocks(run.blocks.data(), run.blocks.size());
    }
  }

 private:
  struct Run {
    const mx_device_api* device = nullptr;
    mx_token* token = nullptr;
    std::vector<mx_block> blocks;
  };
  std::list<Run> runs_;  // guarded by leaf_mutex<Retired>
};

}  // namespace

void* Workspace::take(size_t bytes, const char* tag) {
  if (bytes == 0) return nullptr;
  blocks_[taken_] = allocate_block(context_, bytes, tag);
  return blocks_[taken_++].data;
}

Workspace::~Workspace() {
  if (taken_ == 0) return;
  if (mx_on_host(context_)) {
    free_blocks(blocks_.data(), taken_);
    return;
  }
  const mx_device_api* device = Runtime::instance().device(context_.type);
  mx_token* token = nullptr;
  mx_error error{};
  // Without a token nobody can tell when the memory is free: it is lost with the broken stream.
  if (device->record(device->self, stream_, &token, &error) != MX_OK) return;
  try {
    Retired::instance().add(device, token, blocks_.data(), taken_);
  } catch (const std::bad_alloc&) {  // nothing to remember them with: wait here
    device->wait(device->self, token, &error);
    device->release(device->self, token);
    free_blocks(blocks_.data(), taken_);
  }
}

mx_block allocate_block(mx_context context, size_t bytes, const char* tag) {
  const mx_storage_api* storage = Runtime::instance().storage(context.type);
  mx_block block{};
  mx_error error{};
  if (!mx_on_host(context)) Retired::instance().reclaim(false);
  int32_t status = storage->alloc(storage->self, context, bytes, tag, &block, &error);
  if (status == MX_ERROR_MEMORY && !mx_on_host(context)) {
    Retired::instance().reclaim(true);
    status = storage->alloc(storage->self, context, bytes, tag, &block, &error);
  }
  check(status, error);
  return block;
}

void reclaim_workspaces() noexcept { Retired::instance().reclaim(false); }

}  // namespace mx::nd
