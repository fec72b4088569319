// SPDX-License-Identifier: Apache-2.0
//
// The kernels as the framework calls them: prepare once, run from any number of threads.
#include "moving_average.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "mx_core/native_tests.hpp"

namespace {

using Values = std::vector<float>;

mx_tensor tensor(float* data, const int64_t* shape, int32_t dtype = MX_FLOAT32) {
  mx_tensor made{};
  made.data = data;
  made.shape = shape;
  made.bytes = static_cast<size_t>(shape[0] * shape[1]) * sizeof(float);
  made.context = {MX_CPU, 0};
  made.dtype = dtype;
  made.ndim = 2;
  return made;
}

// One kernel prepared for rows of `length` values that become `count` ones.
class Prepared {
 public:
  Prepared(const mx_kernel_api& api, int window, int64_t rows, int64_t length, int64_t count,
           int32_t dtype = MX_FLOAT32)
      : in_shape_{rows, length}, out_shape_{rows, count} {
    const std::string text = std::to_string(window);
    mx_param param{};
    param.name = "window";
    param.text = text.c_str();
    param.number = window;
    param.is_number = 1;
    const mx_tensor input = tensor(nullptr, in_shape_, dtype);
    const mx_tensor output = tensor(nullptr, out_shape_, dtype);
    mx_signature signature{};
    signature.size = sizeof signature;
    signature.context = {MX_CPU, 0};
    signature.params = &param;
    signature.inputs = &input;
    signature.outputs = &output;
    signature.n_params = signature.n_inputs = signature.n_outputs = 1;
    status = api.prepare(api.self, &signature, &plan_, &error);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    if (plan_ != nullptr) plan_->release(plan_);
  }

  Values run(Values input, Values output, mx_req request) const {
    std::vector<double> scratch(plan_->scratch_bytes[0] / sizeof(double), -7.0);
    void* pointers[] = {scratch.data()};
    mx_kernel_context context{};
    context.size = sizeof context;
    context.scratch = pointers;
    context.threads = 1;
    const mx_tensor in = tensor(input.data(), in_shape_);
    const mx_tensor out = tensor(output.data(), out_shape_);
    const auto req = static_cast<uint8_t>(request);
    mx_error ignored{};
    plan_->retain(plan_);
    CHECK(plan_->run(plan_, &context, &in, 1, &out, &req, 1, &ignored) == MX_OK);
    plan_->release(plan_);
    return output;
  }

  int32_t status = MX_OK;
  mx_error error{};

 private:
  int64_t in_shape_[2], out_shape_[2];
  mx_plan* plan_ = nullptr;
};

void forward_averages_every_window() {
  const Prepared kernel(*mx_example::moving_average_kernel(), 3, 2, 5, 3);
  CHECK(kernel.status == MX_OK);
  const Values x = {3, 6, 9, 12, 15, 0, 0, 3, 0, 0};
  CHECK(kernel.run(x, Values(6, 99), MX_REQ_WRITE) == (Values{6, 9, 12, 1, 1, 1}));
  CHECK(kernel.run(x, Values(6, 100), MX_REQ_ADD) == (Values{106, 109, 112, 101, 101, 101}));
  CHECK(kernel.run(x, Values(6, 99), MX_REQ_NULL) == Values(6, 99));
}

void backward_spreads_over_the_window() {
  const Prepared kernel(*mx_example::backward_moving_average_kernel(), 3, 1, 2, 4);
  CHECK(kernel.run({3, 6}, Values(4, 99), MX_REQ_WRITE) == (Values{1, 3, 3, 2}));
}

void windows_of_every_size() {
  for (int window = 1; window <= 9; ++window) {
    const Prepared kernel(*mx_example::moving_average_kernel(), window, 1, 9, 10 - window);
    const Values means = kernel.run(Values(9, 5), Values(10 - window, 99), MX_REQ_WRITE);
    CHECK(means == Values(10 - window, 5));
    const Prepared back(*mx_example::backward_moving_average_kernel(), window, 1, 10 - window, 9);
    double total = 0;
    for (float v : back.run(Values(10 - window, 5), Values(9, 99), MX_REQ_WRITE)) total += v;
    CHECK(total > 5 * (10 - window) - 1e-4 && total < 5 * (10 - window) + 1e-4);
  }
}

void other_types_are_declined() {
  const Prepared kernel(*mx_example::moving_average_kernel(), 3, 2, 5, 3, MX_FLOAT16);
  CHECK(kernel.status == MX_ERROR_UNSUPPORTED);
  CHECK(std::string(kernel.error.message).find("[moving_average]") == 0);
}

void threads_share_a_plan() {
  const Prepared kernel(*mx_example::moving_average_kernel(), 2, 1, 4, 3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&kernel, t] {
      const auto v = static_cast<float>(t);
      for (int i = 0; i < 200; ++i) {
        CHECK(kernel.run({v, v + 2, v + 4, v + 6}, Values(3), MX_REQ_WRITE) ==
              (Values{v + 1, v + 3, v + 5}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  forward_averages_every_window();
  backward_spreads_over_the_window();
  windows_of_every_size();
  other_types_are_declined();
  threads_share_a_plan();
  return 0;
}
