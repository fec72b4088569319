// SPDX-License-Identifier: Apache-2.0
//
// A program in its steady state allocates nothing: neither when it is pushed nor when it runs.
#include <cstdlib>
#include <new>

#include "binding.hpp"
#include "mx_core/native_tests.hpp"
#include "fakes.hpp"

namespace {

thread_local long allocations = 0;
thread_local bool counting = false;

__attribute__((noinline)) void* counted(std::size_t size) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete[](void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace mx::symbol;

// An engine that only runs what it gets.
int32_t run_at_once(void*, const mx_operation* operation, mx_failure** failure, mx_error*) {
  mx_run_context context{};
  context.size = sizeof context;
  context.context = operation->context;
  *failure = operation->run(operation->argument, &context);
  operation->destroy(operation->argument);
  return MX_OK;
}

long allocations_of(Binding& binding, int runs) {
  allocations = 0;
  counting = true;
  for (int i = 0; i < runs; ++i) binding.push(0, 0);
  counting = false;
  return allocations;
}

void pushes_and_runs_allocate_nothing() {
  Fakes fakes;
  const Tables given = fakes.tables();
  mx_engine_api engine = *given.engine;
  engine.push = run_at_once;
  mx_call call;
  call.random_blocks = 2;
  call.body = [](const mx_tensor* in, const mx_tensor* out, const uint8_t*, uint64_t) {
    static_cast<float*>(out[0].data)[0] = static_cast<const float*>(in[0].data)[0] + 1;
    return static_cast<mx_failure*>(nullptr);
  };
  auto program = std::make_shared<Program>(Tables{&engine, given.invoke, given.random},
                                           mx_context{MX_CPU, 0}, "chain");
  constexpr uint32_t kNodes = 50;
  program->add_array();
  program->add_array();
  std::vector<uint32_t> slots;
  for (uint32_t i = 0; i <= kNodes; ++i) {
    Slot slot;
    slot.array = i == 0 ? 0 : 1;
    slot.offset = i == 0 ? 0 : (i - 1) * 64;
    slot.shape = {1};
    slots.push_back(program->add_slot(slot, 4));
  }
  for (uint32_t i = 0; i < kNodes; ++i) {
    Node node;
    node.name = "node" + std::to_string(i);
    node.call = &call;
    node.inputs = {slots[i]};
    node.outputs = {slots[i + 1]};
    node.req = {MX_REQ_WRITE};
    node.scalars = {1.0, 2.0};
    node.prepared = i < 3;
    program->add_node(std::move(node));
  }
  program->seal({kNodes});
  mx_array input(1), arena(kNodes * 16);
  auto binding = std::make_shared<Binding>(program, std::vector<mx_array*>{&input, &arena});
  binding->push(0, 0);  // places, makes jobs, prepares
  CHECK(allocations_of(*binding, 100) == 0);
  CHECK(arena.values[(kNodes - 1) * 16] == kNodes);
}

}  // namespace

int main() {
  pushes_and_runs_allocate_nothing();
  std::puts("ok");
  return 0;
}
