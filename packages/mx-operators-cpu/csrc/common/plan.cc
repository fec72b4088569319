// SPDX-License-Identifier: Apache-2.0
#include "common/plan.hpp"

#include <pthread.h>

#include <string>
#include <thread>

#include "common/blocked_signals.hpp"
#include "mx_core/signal_stack.hpp"
#include "simd/accumulate.hpp"

namespace mx::cpu {
namespace {

thread_local bool forked = false;  // this thread went through fork() in the child

// 0, unless forks cannot be watched: then no thread's team is trusted.
const int fork_watch = pthread_atfork(nullptr, nullptr, [] { forked = true; });

// Runs `body` where its parallel regions have a team.  OpenMP keeps a team per thread; a forked child's first thread
// has inherited one whose other members do not exist, and would wait for them for ever: there `body` runs on a new
// thread.
template <class Body>
void with_team(const Body& body) {
  if (!forked && fork_watch == 0) return body();
  detail::FirstException failure;
  std::thread([&] { failure.guard(body); }).join();
  failure.rethrow();
}

size_t total_bytes(const std::vector<Spec>& specs) {
  size_t total = 0;
  for (const Spec& spec : specs) total += spec.bytes();
  return total;
}

constexpr char kName[] = "mx-operators-cpu";

}  // namespace

Plan::Plan(Signature signature, const Cost& cost) : mx::Plan(kName, std::move(signature)) {
  set_flags((cost.parallel() && team_size() > 1 ? MX_PLAN_PARALLEL : 0u) | (cost.heavy() ? MX_PLAN_HEAVY : 0u));
}

Plan::Plan(std::vector<Spec> inputs, std::vector<Spec> outputs, uint32_t n_scalars)
    : mx::Plan(kName, {std::move(inputs), std::move(outputs), n_scalars}) {
  if (total_bytes(inputs_) + total_bytes(outputs_) > kParallelBytes) set_parallel();
}

void Plan::set_flags(uint32_t wanted) {
  flags = wanted;
  threads_ = (wanted & MX_PLAN_PARALLEL) != 0 ? team_size() : 1;
}

void Plan::set_parallel() { set_flags(MX_PLAN_PARALLEL | MX_PLAN_HEAVY); }

void Plan::enter(const Call& call) const {
  const auto run = [&](int threads) {
    SignalStack::of_this_thread();
    const TeamScope team(threads);
    execute_staged(call);
    detail::fence_streaming_stores();
  };
  const int threads = std::min(threads_, static_cast<int>(call.context.threads));
  if (threads <= 1) return run(1);
  const BlockedSignals blocked;
  with_team([&] { run(threads); });
}

void Plan::add(const Spec& spec, void* target, const void* source) const {
  constexpr int64_t kGrain = 64 << 10;
  const size_t item = item_size(spec.dtype);
  parallel_for(spec.size(), kGrain, [&](int64_t begin, int64_t end) {
    const size_t offset = static_cast<size_t>(begin) * item;
    accumulate(spec.dtype, static_cast<char*>(target) + offset, static_cast<const char*>(source) + offset, end - begin);
  });
}

Cost bandwidth_cost(const Signature& signature) {
  return {0, static_cast<double>(total_bytes(signature.inputs) + total_bytes(signature.outputs))};
}

const Signature& counted(const Signature& signature, size_t inputs, size_t outputs) {
  require_counts(signature, inputs, inputs, outputs, outputs);
  return signature;
}

void require_counts(const Signature& signature, size_t least_inputs, size_t most_inputs, size_t least_outputs,
                    size_t most_outputs) {
  const size_t in = signature.inputs.size(), out = signature.outputs.size();
  if (in < least_inputs || in > most_inputs || out < least_outputs || out > most_outputs) throw Unsupported{};
}

void require_sizes(const std::vector<Spec>& specs, std::initializer_list<int64_t> sizes) {
  if (specs.size() != sizes.size()) throw Unsupported{};
  size_t i = 0;
  for (int64_t size : sizes)
    if (specs[i++].size() != size) throw Unsupported{};
}

void require_float(const Signature& signature) {
  for (const auto* specs : {&signature.inputs, &signature.outputs}) {
    for (const Spec& spec : *specs) {
      if (spec.dtype != MX_FLOAT32) throw Unsupported{};
    }
  }
}

}  // namespace mx::cpu
