// SPDX-License-Identifier: Apache-2.0
//
// An engine that runs at the push: failures come back from it, and the interpreter's lock is left meanwhile.
#include "interpreter_lock.hpp"
#include "kernels.hpp"
#include "invoke.hpp"
#include "table.hpp"

using namespace kernels;

namespace {

// Runs everything at the push, or refuses it.
struct Loader final : mx::nd::ServiceLoader {
  Loader() {
    mx::nd::Runtime::instance().set_loader(this);
    api = host.engine_.api;
    api.self = this;
    api.is_naive = [](void*) { return 1; };
    api.push = [](void* self, const mx_operation* operation, mx_failure** failure, mx_error* error) -> int32_t {
      if (static_cast<Loader*>(self)->refuses) {
        operation->destroy(operation->argument);
        return mx::set_error(error, MX_ERROR_SHUTDOWN, "no more");
      }
      mx_run_context run{};
      run.size = sizeof run;
      run.context = operation->context;
      *failure = operation->run(operation->argument, &run);
      operation->destroy(operation->argument);
      return MX_OK;
    };
    api.delete_variable = [](void*, mx_variable* variable, mx_context, void (*deleter)(void*), void* argument) {
      deleter(argument);
      delete variable;
    };
  }
  const mx_engine_api* engine() override {
    ++asked;
    return &api;
  }
  const mx_storage_api* storage(int32_t type) override { return host.storage(type); }
  const mx_resource_api* random(int32_t type) override { return host.random(type); }
  const mx_device_api* device(int32_t type) override { return host.device(type); }
  std::string device_name(int32_t type) override { return host.device_name(type); }
  fakes::Loader host;
  mx_engine_api api{};
  bool refuses = false;
  int asked = 0;
};

int32_t broken(const mx_plan*, const mx_kernel_context*, const mx_tensor*, uint32_t, const mx_tensor*,
               const uint8_t*, uint32_t, mx_error* error) {
  return mx::set_error(error, MX_ERROR_INDEX, "index 7");
}

void failures_come_back_from_the_push() {
  Ref<Call> call = kernels::call(broken, 0, 1);
  Ref<Array> out = array({0});
  Array* to = out.get();
  bool thrown = false;
  try {
    mx::nd::push(*call, nullptr, 0, &to, nullptr, 1, nullptr, 0, false, 0, nullptr);
  } catch (const mx::FailureError& error) {
    thrown = error.failure.get()->code == MX_ERROR_INDEX;
  }
  CHECK(thrown);
  const mx_invoke_api* table = mx::nd::invoke_table();
  mx_error error{};
  CHECK(table->push(table->self, call.get(), nullptr, 0, &to, nullptr, 1, nullptr, 0, 0, 0, &error) ==
        MX_ERROR_INDEX);
  CHECK(std::string(error.message) == "index 7");
}

void refused_pushes_are_errors(Loader& loader) {
  Ref<Call> call = kernels::call(count, 0, 1);
  Ref<Array> a = array({0}), b = array({0});
  Array* to = a.get();
  loader.refuses = true;
  for (const bool copies : {false, true}) {
    CHECK(test::error_of([&] {
            if (copies) return mx::nd::copy(*a, *b, nullptr);
            mx::nd::push(*call, nullptr, 0, &to, nullptr, 1, nullptr, 0, false, 0, nullptr);
          }, MX_ERROR_SHUTDOWN) == "no more");
  }
  loader.refuses = false;
}

struct Lock final : mx::nd::InterpreterLock {
  void* leave() noexcept override {
    ++left;
    return &left;
  }
  void enter(void* token) noexcept override {
    CHECK(token == &left);
    ++entered;
  }
  int left = 0, entered = 0;
};

void the_lock_is_left_where_it_may_take_long() {
  using mx::nd::WithoutInterpreter;
  { const WithoutInterpreter nothing_to_leave(true); }
  Lock lock;
  mx::nd::InterpreterLockState& state = mx::nd::interpreter_lock_state();
  state.lock = &lock;
  { const WithoutInterpreter without(false); }
  CHECK(lock.left == 0);
  {
    const WithoutInterpreter without(true);
    CHECK(lock.left == 1 && lock.entered == 0);
  }
  CHECK(lock.entered == 1);
  state.forking = true;  // the forking thread may need it
  { const WithoutInterpreter without(false); }
  state.forking = false;
  CHECK(lock.left == 2 && lock.entered == 2);
  Ref<Array> a = array({1}), b = array({0});
  const int before = lock.left;
  mx::nd::copy(*a, *b, nullptr);  // small, but runs here
  CHECK(lock.left == before + 1 && lock.entered == lock.left && values(*b) == std::vector<float>{1});
  state.lock = nullptr;
}

void services_are_asked_for_once(Loader& loader) {
  for (int i = 0; i < 3; ++i) array({1});
  CHECK(loader.asked == 1 && mx::nd::Runtime::instance().naive());
}

}  // namespace

int main() {
  Loader loader;
  failures_come_back_from_the_push();
  refused_pushes_are_errors(loader);
  the_lock_is_left_where_it_may_take_long();
  services_are_asked_for_once(loader);
  CHECK(loader.host.storage_.alive == 0);
}
