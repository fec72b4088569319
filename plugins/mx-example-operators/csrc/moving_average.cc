// SPDX-License-Identifier: Apache-2.0
#include "moving_average.hpp"

#include <cstring>
#include <utility>

#include "mx_core/plan.hpp"
#include "window_means.hpp"

namespace mx_example {
namespace {

enum class Direction { kForward, kBackward };

template <class T>
class MovingAverage final : public mx::Plan {
 public:
  MovingAverage(mx::Signature signature, int64_t window, Direction direction)
      : Plan("moving_average", std::move(signature)),
        window_(window),
        padding_(direction == Direction::kForward ? 0 : window - 1),
        sums_(add_scratch<double>(window)) {}

 private:
  void execute(const mx::Call& call) const override {
    if (!call.wanted(0) || output(0).size() == 0) return;
    const int64_t length = input(0).shape.back(), count = output(0).shape.back();
    const T* source = call.input<T>(0);
    T* target = call.output<T>(0);
    for (int64_t r = 0; r < output(0).size() / count; ++r, source += length, target += count) {
      window_means<T>({source, length, padding_}, window_, static_cast<mx_req>(call.req[0]),
                      call.scratch<double>(sums_), target);
    }
  }

  const int64_t window_;
  const int64_t padding_;  // zeros on both sides of a row
  const mx::Section sums_;
};

int64_t find_window(const mx_signature& signature) {
  for (uint32_t i = 0; i < signature.n_params; ++i) {
    const mx_param& param = signature.params[i];
    if (std::strcmp(param.name, "window") == 0 && param.is_number != 0) {
      return static_cast<int64_t>(param.number);
    }
  }
  throw mx::Error(MX_ERROR_VALUE, "[moving_average] window: expected int, got nothing");
}

int32_t prepare(void* self, const mx_signature* signature, mx_plan** result, mx_error* error) {
  return mx::guarded(error, [&] {
    const int32_t dtype = signature->inputs[0].dtype;
    const int64_t window = find_window(*signature);
    const Direction direction = *static_cast<Direction*>(self);
    if (dtype == MX_FLOAT32) {
      *result = new MovingAverage<float>(mx::signature_of(*signature), window, direction);
    } else if (dtype == MX_FLOAT64) {
      *result = new MovingAverage<double>(mx::signature_of(*signature), window, direction);
    } else {  // another kernel or the reference has it
      throw mx::Error(MX_ERROR_UNSUPPORTED, "[moving_average] float32 and float64 only");
    }
  });
}

template <Direction kDirection>
const mx_kernel_api* table() {
  static Direction direction = kDirection;
  static const mx_kernel_api api = {
      {sizeof(mx_kernel_api), MX_KERNEL_MAJOR, MX_KERNEL_MINOR}, &direction, prepare};
  return &api;
}

}  // namespace

const mx_kernel_api* moving_average_kernel() { return table<Direction::kForward>(); }
const mx_kernel_api* backward_moving_average_kernel() { return table<Direction::kBackward>(); }

}  // namespace mx_example
