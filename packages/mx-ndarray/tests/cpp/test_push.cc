// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"

#include <cstddef>
#include <cstdlib>

using namespace kernels;

namespace {

using Values = std::vector<float>;

void push(Call& call, std::vector<Array*> in, std::vector<Array*> out, uint8_t req = MX_REQ_WRITE) {
  const std::vector<uint8_t> reqs(out.size(), req);
  mx::nd::push(call, in.data(), static_cast<uint32_t>(in.size()), out.data(), reqs.data(),
               static_cast<uint32_t>(out.size()), nullptr, 0, false, 0, nullptr);
}

void an_array_may_be_everything_at_once(fakes::Engine& engine) {
  Ref<Call> call = kernels::call(add, 2, 3);
  call->inplace = {{0, 0}, {1, 0}};
  Ref<Array> x = array({1, 2, 3});
  push(*call, {x.get(), x.get()}, {x.get()});
  engine.drain();
  CHECK(values(*x) == (Values{2, 4, 6}));
  CHECK(engine.pushed.back() == std::make_pair(0u, 1u));
}

void what_cannot_work_in_place_is_computed_aside(fakes::Engine& engine) {
  Ref<Call> call = kernels::call(reverse, 1, 3);
  Ref<Array> x = array({1, 2, 3});
  push(*call, {x.get()}, {x.get()});
  engine.drain();
  CHECK(values(*x) == (Values{3, 2, 1}));
  push(*call, {x.get()}, {x.get()}, MX_REQ_ADD);
  engine.drain();
  CHECK(values(*x) == (Values{4, 4, 4}));
  const int64_t three = 3;
  Ref<Array> whole = array({1, 2, 3, 4});
  Ref<Array> low = whole->view(0, MX_FLOAT32, Shape(1, &three));
  Ref<Array> high = whole->view(4, MX_FLOAT32, Shape(1, &three));
  push(*call, {low.get()}, {high.get()});
  engine.drain();
  CHECK(values(*whole) == (Values{1, 3, 2, 1}));
}

void requests(fakes::Engine& engine) {
  Ref<Call> call = kernels::call(add, 2, 2);
  Ref<Array> a = array({1, 2});
  Ref<Array> out = array({10, 10});
  push(*call, {a.get(), a.get()}, {out.get()}, MX_REQ_ADD);
  engine.drain();
  CHECK(values(*out) == (Values{12, 14}));
  const size_t before = engine.pushed.size();
  push(*call, {a.get(), a.get()}, {out.get()}, MX_REQ_NULL);
  CHECK(engine.pushed.size() == before);
}

void arrays_of_another_signature_are_refused() {
  Ref<Call> call = kernels::call(add, 2, 2, 2);
  const int64_t two = 2;
  Ref<Array> a = array({1, 2}), longer = array({1, 2, 3});
  Ref<Array> whole = Array::create({MX_CPU, 0}, MX_INT32, Shape(1, &two));
  Ref<Array> pending = Array::unshaped({MX_CPU, 0}, MX_FLOAT32);
  const auto refusal = [&](std::vector<Array*> in, std::vector<Array*> out, mx_status code) {
    return test::error_of([&] { push(*call, std::move(in), std::move(out)); }, code);
  };
  const std::vector<Array*> both{a.get(), a.get()};
  const std::string expected = ": expected shape (2,) of type code 0, got ";
  CHECK(refusal({a.get()}, both, MX_ERROR_VALUE) ==
        "[test] expected 2 inputs, 2 outputs, 0 scalars, got 1, 2, 0");
  CHECK(refusal(both, {a.get()}, MX_ERROR_VALUE) ==
        "[test] expected 2 inputs, 2 outputs, 0 scalars, got 2, 1, 0");
  for (const size_t at : {0, 1}) {
    const auto with = [&](Array& other) {
      std::vector<Array*> list = both;
      list[at] = &other;
      return list;
    };
    const std::string input = "[test] input " + std::to_string(at) + expected;
    const std::string output = "[test] output " + std::to_string(at) + expected;
    CHECK(refusal(with(*longer), both, MX_ERROR_SHAPE) == input + "(3,) of type code 0");
    CHECK(refusal(with(*whole), both, MX_ERROR_SHAPE) == input + "(2,) of type code 4");
    CHECK(refusal(with(*pending), both, MX_ERROR_SHAPE) == input + "(0,) of type code 0");
    CHECK(refusal(both, with(*longer), MX_ERROR_SHAPE) == output + "(3,) of type code 0");
    CHECK(refusal(both, with(*whole), MX_ERROR_SHAPE) == output + "(2,) of type code 4");
  }
  call->n_scalars = 1;
  test::error_of([&] { push(*call, both, both); }, MX_ERROR_VALUE);
}

void variables_are_named_once_and_as_written_where_they_are(fakes::Engine& engine) {
  const auto nothing = [](const mx_plan*, const mx_kernel_context*, const mx_tensor*, uint32_t, const mx_tensor*,
                          const uint8_t*, uint32_t, mx_error*) -> int32_t { return MX_OK; };
  Ref<Call> call = kernels::call(nothing, 3, 1, 2);
  Ref<Array> a = array({1}), b = array({1}), c = array({1}), d = array({1}), e = array({1});
  const auto named = [&](std::vector<Array*> in, std::vector<Array*> out, std::vector<uint8_t> req) {
    mx::nd::push(*call, in.data(), 3, out.data(), req.data(), 2, nullptr, 0, false, 0, nullptr);
    engine.drain();
    return engine.pushed.back();
  };
  using Named = std::pair<uint32_t, uint32_t>;  // read, written
  const std::vector<uint8_t> write{MX_REQ_WRITE, MX_REQ_WRITE}, first{MX_REQ_WRITE, MX_REQ_NULL};
  CHECK(named({a.get(), b.get(), c.get()}, {d.get(), e.get()}, write) == Named(3, 2));
  CHECK(named({a.get(), b.get(), c.get()}, {d.get(), e.get()}, first) == Named(3, 1));
  CHECK(named({a.get(), b.get(), a.get()}, {d.get(), d.get()}, write) == Named(2, 1));
  CHECK(named({a.get(), d.get(), d.get()}, {d.get(), e.get()}, write) == Named(1, 2));
  call->mutated = {2};
  CHECK(named({a.get(), b.get(), c.get()}, {d.get(), e.get()}, first) == Named(2, 2));
  call->shape_only = {true, false, false};
  CHECK(named({a.get(), b.get(), c.get()}, {d.get(), e.get()}, first) == Named(1, 2));
  const std::vector<uint8_t> none{MX_REQ_NULL, MX_REQ_NULL};
  CHECK(named({a.get(), b.get(), c.get()}, {d.get(), e.get()}, none) == Named(1, 1));  // its state alone
}

void one_of_several_results_may_share_memory(fakes::Engine& engine) {
  // outputs[0] and outputs[1] are the input backwards
  Ref<Call> call = kernels::call(
      [](const mx_plan* plan, const mx_kernel_context* context, const mx_tensor* in, uint32_t,
         const mx_tensor* out, const uint8_t* req, uint32_t, mx_error* error) -> int32_t {
        reverse(plan, context, in, 1, &out[0], &req[0], 1, error);
        return reverse(plan, context, in, 1, &out[1], &req[1], 1, error);
      },
      1, 3, 2);
  for (const size_t shared : {0, 1}) {
    Ref<Array> x = array({1, 2, 3}), other = array({7, 7, 7});
    std::vector<Array*> out{other.get(), other.get()};
    out[shared] = x.get();
    push(*call, {x.get()}, out);
    engine.drain();
    CHECK(values(*x) == (Values{3, 2, 1}) && values(*other) == (Values{3, 2, 1}));
  }
}

void arrays_may_go_while_work_is_pending(fakes::Loader& loader) {
  Ref<Call> call = kernels::call(add, 2, 2);
  Ref<Array> out = array({0, 0});
  loader.engine_.hold(true);
  {
    Ref<Array> a = array({1, 2});
    Ref<Array> b = array({3, 4});
    push(*call, {a.get(), b.get()}, {out.get()});
  }
  call = nullptr;
  loader.engine_.hold(false);
  loader.engine_.drain();
  CHECK(values(*out) == (Values{4, 6}));
  CHECK(loader.storage_.alive == 1);
}

void what_is_neither_read_nor_written_may_be_gone(fakes::Loader& loader) {
  Ref<Call> call = kernels::call(count, 1, 2, 2);
  call->shape_only = {true};
  Ref<Array> out = array({0, 0});
  loader.engine_.hold(true);
  {
    Ref<Array> shape = array({1, 2});
    Ref<Array> unwanted = array({5, 5});
    Array* in = shape.get();
    Array* outs[] = {out.get(), unwanted.get()};
    const uint8_t req[] = {MX_REQ_WRITE, MX_REQ_NULL};
    mx::nd::push(*call, &in, 1, outs, req, 2, nullptr, 0, false, 0, nullptr);
  }
  CHECK(loader.storage_.alive == 1);
  loader.engine_.hold(false);
  loader.engine_.drain();
  CHECK(values(*out) == (Values{0, 1}));
}

void failures_poison_and_scratch_goes_back(fakes::Loader& loader) {
  static const size_t kScratch = 4096;
  Ref<Call> call = kernels::call(add, 1, 2);
  delete call->plan;
  call->plan = plan(
      [](const mx_plan*, const mx_kernel_context* context, const mx_tensor*, uint32_t,
         const mx_tensor*, const uint8_t*, uint32_t, mx_error* error) -> int32_t {
        std::memset(context->scratch[0], 1, kScratch);
        return mx::set_error(error, MX_ERROR_INDEX, "index 7");
      },
      0, &kScratch);
  Ref<Array> a = array({1, 2});
  Ref<Array> out = array({0, 0});
  loader.engine_.drain();
  const int before = loader.storage_.alive;
  push(*call, {a.get()}, {out.get()});
  loader.engine_.drain();
  CHECK(out->variable()->failure != nullptr);
  CHECK(out->variable()->failure->code == MX_ERROR_INDEX);
  CHECK(loader.storage_.alive == before);
}

void shapes_may_be_decided_by_the_kernel(fakes::Engine& engine) {
  Ref<Call> call = kernels::call(add, 1, 4);
  delete call->plan;
  call->plan = plan([](const mx_plan*, const mx_kernel_context* context, const mx_tensor* in,
                       uint32_t, const mx_tensor*, const uint8_t*, uint32_t,
                       mx_error* error) -> int32_t {
    const int64_t two = 2;
    mx_tensor tensor{};
    for (const uint32_t i : {1u, 3u}) {
      CHECK(context->alloc_output(context, i, 1, &two, &tensor, error) == MX_ERROR_INDEX);
      CHECK(std::string(error->message) == "[test] output " + std::to_string(i) + " of 1");
    }
    const int32_t status = context->alloc_output(context, 0, 1, &two, &tensor, error);
    if (status == MX_OK) std::memcpy(tensor.data, in->data, 2 * sizeof(float));
    return status;
  });
  call->dynamic_output = true;
  call->seal();
  Ref<Array> a = array({5, 6, 7, 8});
  Ref<Array> out = Array::unshaped({MX_CPU, 0}, MX_FLOAT32);
  CHECK(out->pending());
  push(*call, {a.get()}, {out.get()});
  engine.drain();
  CHECK(!out->pending() && values(*out) == (Values{5, 6}));
}

void several_shapes_may_be_decided_by_the_kernel(fakes::Loader& loader) {
  Ref<Call> call = kernels::call(add, 0, 1, 2);
  delete call->plan;
  call->plan = plan([](const mx_plan*, const mx_kernel_context* context, const mx_tensor*, uint32_t,
                       const mx_tensor*, const uint8_t*, uint32_t n_outputs, mx_error* error) -> int32_t {
    int32_t status = MX_OK;
    for (uint32_t i = 0; status == MX_OK && i < n_outputs; ++i) {
      const int64_t size = 2 + i;
      mx_tensor tensor{};
      status = context->alloc_output(context, i, 1, &size, &tensor, error);
      if (status == MX_OK) std::fill_n(static_cast<float*>(tensor.data), size, static_cast<float>(i));
    }
    return status;
  });
  call->dynamic_output = true;
  call->seal();
  loader.engine_.drain();
  const int before = loader.storage_.alive;
  {
    Ref<Array> first = Array::unshaped({MX_CPU, 0}, MX_FLOAT32), second = Array::unshaped({MX_CPU, 0}, MX_FLOAT32);
    push(*call, {}, {first.get(), second.get()});
    loader.engine_.drain();
    CHECK(values(*first) == (Values{0, 0}) && values(*second) == (Values{1, 1, 1}));
    CHECK(loader.storage_.alive == before + 2);
  }
  loader.engine_.drain();
  CHECK(loader.storage_.alive == before);  // the operation holds none of them
}

void random_offsets_are_reserved_at_the_push(fakes::Loader& loader) {
  Ref<Call> call = kernels::call(add, 0, 1);
  delete call->plan;
  call->plan = plan([](const mx_plan*, const mx_kernel_context* context, const mx_tensor*, uint32_t,
                       const mx_tensor* out, const uint8_t*, uint32_t, mx_error*) -> int32_t {
    *static_cast<float*>(out->data) = static_cast<float>(context->random_offset);
    return MX_OK;
  });
  call->random_blocks = 5;
  Ref<Array> first = array({-1});
  Ref<Array> second = array({-1});
  push(*call, {}, {first.get()});
  push(*call, {}, {second.get()});
  loader.engine_.drain();
  CHECK(values(*second)[0] - values(*first)[0] == 5);
}

void threads_push_together(fakes::Loader& loader) {
  Ref<Call> call = kernels::call(add, 2, 2);
  call->inplace = {{0, 0}};
  Ref<Array> one = array({1, 1});
  std::vector<std::thread> threads;
  std::vector<Ref<Array>> sums;
  for (int t = 0; t < 4; ++t) sums.push_back(array({0, 0}));
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        Ref<Array> copy = one;
        mx_array* in[] = {sums[static_cast<size_t>(t)].get(), copy.get()};
        mx::nd::push(*call, in, 2, in, nullptr, 1, nullptr, 0, false, 0, nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  loader.engine_.drain();
  for (const Ref<Array>& sum : sums) CHECK(values(*sum) == (Values{200, 200}));
}

// A kernel in Python must know whether its memory is that of a device.
struct Place final : mx::nd::ForeignKernel {
  explicit Place(int32_t* type) : type_(type) {}
  mx_failure* run(const Call&, const mx::nd::Execution& execution) noexcept override {
    *type_ = execution.context->context.type;
    return nullptr;
  }
  int32_t* type_;
};

void kernels_in_python_are_told_where_they_run() {
  int32_t seen = -1;
  Ref<Call> call = Ref<Call>::adopt(new Call);
  call->name = "test";
  call->foreign = std::make_unique<Place>(&seen);
  call->seal();
  for (const int32_t type : {int32_t{MX_FIRST_PLUGIN_DEVICE}, int32_t{MX_CPU}}) {
    mx_run_context where{};
    where.context = {type, 0};
    CHECK(mx::nd::execute(*call, where, {}, nullptr, 0, false, 0, 0, nullptr) == nullptr && seen == type);
  }
}

void who_runs_a_kernel_may_give_it_fewer_threads() {
  static uint32_t seen = 0;
  const auto look = [](const mx_plan*, const mx_kernel_context* context, const mx_tensor*, uint32_t,
                       const mx_tensor*, const uint8_t*, uint32_t, mx_error*) -> int32_t {
    seen = context->threads;
    return MX_OK;
  };
  Ref<Call> call = kernels::call(look, 0, 1);
  const auto threads = [&](uint32_t flags, uint32_t most, size_t size) {
    call->push_flags = flags;
    mx_run_context run{};
    run.size = static_cast<uint32_t>(size);
    run.context = {MX_CPU, 0};
    run.threads = most;
    CHECK(mx::nd::execute(*call, run, {}, nullptr, 0, false, 0, 0, nullptr) == nullptr);
    return seen;
  };
  constexpr size_t kWhole = sizeof(mx_run_context);
  CHECK(threads(0, 4, kWhole) == 1);
  CHECK(threads(MX_PUSH_PARALLEL, 0, kWhole) == 6);
  CHECK(threads(MX_PUSH_PARALLEL, 4, kWhole) == 4);
  CHECK(threads(MX_PUSH_PARALLEL, 9, kWhole) == 6);
  CHECK(threads(MX_PUSH_PARALLEL, 4, offsetof(mx_run_context, threads)) == 6);  // built before there was one
}

}  // namespace

int main() {
  ::setenv("MXNET_OMP_MAX_THREADS", "6", 1);
  fakes::Loader loader;
  who_runs_a_kernel_may_give_it_fewer_threads();
  kernels_in_python_are_told_where_they_run();
  an_array_may_be_everything_at_once(loader.engine_);
  what_cannot_work_in_place_is_computed_aside(loader.engine_);
  requests(loader.engine_);
  arrays_of_another_signature_are_refused();
  variables_are_named_once_and_as_written_where_they_are(loader.engine_);
  one_of_several_results_may_share_memory(loader.engine_);
  loader.engine_.drain();
  CHECK(loader.storage_.alive == 0);
  arrays_may_go_while_work_is_pending(loader);
  what_is_neither_read_nor_written_may_be_gone(loader);
  failures_poison_and_scratch_goes_back(loader);
  shapes_may_be_decided_by_the_kernel(loader.engine_);
  several_shapes_may_be_decided_by_the_kernel(loader);
  random_offsets_are_reserved_at_the_push(loader);
  threads_push_together(loader);
  loader.engine_.drain();
  CHECK(loader.storage_.alive == 0);
}
