// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"
#include "table.hpp"

using kernels::Array;
using kernels::array;
using kernels::Ref;
using kernels::Shape;

namespace {

void memory_is_lazy_and_goes_back(fakes::Loader& loader) {
  const int64_t dim = 4;
  {
    Ref<Array> a = Array::create({MX_CPU, 0}, MX_FLOAT32, Shape(1, &dim));
    CHECK(a->address() == nullptr && loader.storage_.alive == 0);
    CHECK(a->allocate(true) != nullptr && loader.storage_.alive == 1);
    CHECK(kernels::values(*a) == std::vector<float>(4, 0.0f));
  }
  loader.engine_.drain();
  CHECK(loader.storage_.alive == 0);
}

void readers_allocate_together(fakes::Loader& loader) {
  const int64_t dim = 1024;
  for (int round = 0; round < 20; ++round) {
    Ref<Array> a = Array::create({MX_CPU, 0}, MX_FLOAT32, Shape(1, &dim));
    std::vector<void*> seen(4);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < seen.size(); ++i) {
      threads.emplace_back([&, i] { seen[i] = a->allocate(true); });
    }
    for (std::thread& thread : threads) thread.join();
    for (void* address : seen) CHECK(address == seen[0]);
  }
  loader.engine_.drain();
  CHECK(loader.storage_.alive == 0);
}

void views_stay_inside() {
  Ref<Array> a = array({1, 2, 3, 4});
  const int64_t two = 2;
  const int64_t three = 3;
  Ref<Array> view = a->view(8, MX_FLOAT32, Shape(1, &two));
  CHECK(kernels::values(*view) == (std::vector<float>{3, 4}));
  CHECK(view->overlaps(*a) && view->variable() == a->variable());
  CHECK(!a->view(0, MX_FLOAT32, Shape(1, &two))->overlaps(*view));
  test::error_of([&] { a->view(8, MX_FLOAT32, Shape(1, &three)); });
  test::error_of([&] { a->view(SIZE_MAX - 3, MX_FLOAT32, Shape(1, &two)); });
}

void foreign_memory_is_released_last(fakes::Loader& loader) {
  float memory[2] = {1, 2};
  static int released = 0;
  const int64_t two = 2;
  Ref<mx::nd::Call> call = kernels::call(kernels::add, 2, two);
  Ref<Array> sum = kernels::array({0, 0});
  {
    auto chunk = mx::nd::Chunk::foreign({MX_CPU, 0}, memory, sizeof memory, memory,
                                        [](void*) { ++released; });
    Ref<Array> a = Array::wrap(std::move(chunk), 0, MX_FLOAT32, Shape(1, &two));
    CHECK(a->allocate() == memory);
    loader.engine_.hold(true);
    Array* both[] = {a.get(), a.get()};
    Array* out = sum.get();
    mx::nd::push(*call, both, 2, &out, nullptr, 1, nullptr, 0, false, 0, nullptr);
  }
  CHECK(released == 0);
  loader.engine_.hold(false);
  loader.engine_.drain();
  CHECK(released == 1);
  CHECK(kernels::values(*sum) == (std::vector<float>{2, 4}));
}

void the_table_reports_errors() {
  const mx_invoke_api* table = mx::nd::invoke_table();
  CHECK(table->head.major == MX_INVOKE_MAJOR && table->head.size == sizeof(mx_invoke_api));
  const int64_t dims[] = {int64_t{1} << 62, int64_t{1} << 62};
  mx_array* made = nullptr;
  mx_error error{};
  CHECK(table->array_new(table->self, {MX_CPU, 0}, MX_FLOAT32, 2, dims, &made, &error) ==
        MX_ERROR_SHAPE);
  CHECK(made == nullptr && error.message[0] != '\0');
  const int64_t huge = int64_t{1} << 40;
  CHECK(table->array_new(table->self, {MX_CPU, 0}, MX_FLOAT32, 1, &huge, &made, &error) == MX_OK);
  mx_tensor tensor{};
  CHECK(table->array_tensor(table->self, made, 0, &tensor, &error) == MX_OK);
  CHECK(tensor.data == nullptr && tensor.shape[0] == huge);
  CHECK(table->array_tensor(table->self, made, 1, &tensor, &error) == MX_ERROR_MEMORY);
  table->array_release(table->self, made);
}

}  // namespace

int main() {
  fakes::Loader loader;
  memory_is_lazy_and_goes_back(loader);
  readers_allocate_together(loader);
  views_stay_inside();
  foreign_memory_is_released_last(loader);
  the_table_reports_errors();
  loader.engine_.drain();
  CHECK(loader.storage_.alive == 0);
}
