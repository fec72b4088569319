// SPDX-License-Identifier: Apache-2.0
//
// FullyConnected, forward and backward, as matrix products on row-major memory: they are as fast
// as inner products on packed weights, which would have to be packed for every call.
#include "common/float_types.hpp"
#include "matmul/float_product.hpp"
#include "matmul/matmul.hpp"
#include "matmul/matmul_loops.hpp"
#include "matmul/product_step.hpp"
#include "norm/channel_loops.hpp"
#include "onednn/primitive_program.hpp"

namespace mx::cpu {
namespace {

struct Sizes {
  int64_t rows, depth, hidden;
  DataType type;
  Sizes(const Spec& data, const Spec& weight)
      : rows(data.size() / extent(weight.shape, 1)), depth(extent(weight.shape, 1)), hidden(extent(weight.shape, 0)), type(data_type(data)) {}

  MemoryDesc data() const { return plain({rows, depth}, type); }
  MemoryDesc weight() const { return plain({hidden, depth}, type); }
  MemoryDesc out() const { return plain({rows, hidden}, type); }
  Cost cost(double products) const {
    const auto m = static_cast<double>(rows), k = static_cast<double>(depth), n = static_cast<double>(hidden);
    return {products * 2 * m * k * n, 4 * (m * k + k * n + m * n)};
  }
};

MemoryDesc transposed(const MemoryDesc& desc) { return desc.permute_axes({1, 0}); }

// out_grad summed over its rows, block of columns by block of columns.
void sum_rows(const Sizes& s, const float* out_grad, float* bias_grad) {
  parallel_shares((s.hidden + kBlockChannels - 1) / kBlockChannels, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * kBlockChannels, width = std::min(kBlockChannels, s.hidden - first);
      double result[kBlockChannels];
      sums(out_grad + first, {s.rows, s.hidden, width, 1}, result);
      std::copy_n(result, width, bias_grad + first);
    }
  });
}

// A few rows only: bound by reading the weight, once.
constexpr int64_t kFewRows = 4, kFewLowRows = 1;  // of floats, of BFloat16

template <class T>
class FewRows final : public Plan {
 public:
  FewRows(const Signature& signature, const Sizes& s) : Plan(signature, s.cost(1)), s_(s) {
    require_size(inputs_[0], s.rows * s.depth);
    if (inputs_.size() == 3) require_size(inputs_[2], s.hidden);
    require_size(outputs_[0], s.rows * s.hidden);
  }

 private:
  bool stages(size_t i, const uint8_t* req) const override { return req[i] == MX_REQ_ADD; }
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const T *x = call.input<T>(0), *w = call.input<T>(1), *bias = inputs_.size() == 3 ? call.input<T>(2) : nullptr;
    T* y = call.target<T>(0);
    parallel_shares(s_.hidden, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        for (int64_t r = 0; r < s_.rows; ++r) {
          const double sum = dot(x + r * s_.depth, w + n * s_.depth, s_.depth);
          const double more = bias != nullptr ? float(bias[n]) : 0.0f;
          y[r * s_.hidden + n] = T(static_cast<float>(sum + more));
        }
      }
    });
  }

  const Sizes s_;
};

}  // namespace

PlanPtr fully_connected(const Signature& signature) {
  require_counts(signature, 2, 3, 1, 1);
  if (signature.outputs[0].dtype == MX_FLOAT64) return double_fully_connected(signature);
  const Sizes s(signature.inputs[0], signature.inputs[1]);
  if (all_float(signature, {})) {
    if (s.rows <= kFewRows) return std::make_unique<FewRows<float>>(signature, s);
    const FloatProduct product(by_rows(1, s.rows, s.depth), by_columns(1, s.depth, s.hidden),
                               by_rows(1, s.rows, s.hidden));
    if (product.suits()) return float_product_plan(signature, s.cost(1), product);
  } else if (s.rows <= kFewLowRows) {
    return std::make_unique<FewRows<BFloat16>>(signature, s);
  }
  ProgramBuilder builder(signature, s.cost(1));
  const Slot data = builder.input(0, s.data()), weight = builder.input(1, transposed(s.weight()));
  const Slot bias = signature.inputs.size() == 3 ? builder.input(2, plain({1, s.hidden}, s.type)) : -1;
  add_product(builder, data, weight, builder.output(0, s.out()), bias, needed_by(0));
  return builder.build();
}

PlanPtr fully_connected_backward(const Signature& signature) {
  require_counts(signature, 3, 3, 2, 3);
  if (signature.outputs[0].dtype == MX_FLOAT64) return double_fully_connected_backward(signature);
  const Sizes s(signature.inputs[1], signature.inputs[2]);
  ProgramBuilder builder(signature, s.cost(2));
  const Slot out_grad = builder.input(0, s.out());
  add_product(builder, out_grad, builder.input(2, s.weight()), builder.output(0, s.data()), -1, needed_by(0));
  add_product(builder, builder.input(0, transposed(s.out())), builder.input(1, s.data()),
              builder.output(1, s.weight()), -1, needed_by(1));
  if (signature.outputs.size() == 3) {
    const MemoryDesc wide = plain({s.rows, s.hidden}, DataType::f32), sums = plain({s.hidden}, DataType::f32);
    const Slot heads = builder.as(out_grad, wide, needed_by(2));
    const Slot bias_grad = builder.output(2, plain({s.hidden}, s.type)), made = builder.target(bias_grad, sums);
    builder.host(
        [s, heads, made](void* const* slots, const Call&) {
          sum_rows(s, static_cast<const float*>(slots[heads]), static_cast<float*>(slots[made]));
        },
        {heads, made}, needed_by(2));
    builder.deliver(made, bias_grad, needed_by(2));
  }
  return builder.build();
}

}  // namespace mx::cpu
