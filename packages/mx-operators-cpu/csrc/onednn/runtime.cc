// SPDX-License-Identifier: Apache-2.0
#include "onednn/runtime.h"

#include <pthread.h>

#include <exception>
#include <thread>

namespace mx::onednn {
namespace {

thread_local bool forked = false;  // this thread went through fork() in the child

// 0, unless forks cannot be watched: then no thread's team is trusted.
const int fork_watch = pthread_atfork(nullptr, nullptr, [] { forked = true; });

}  // namespace

const dnnl::engine& cpu_engine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

void with_team(const std::function<void()>& body) {
  if (!forked && fork_watch == 0) {
    body();
    return;
  }
  std::exception_ptr failure;
  std::thread([&] {
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace mx::onednn
