// SPDX-License-Identifier: Apache-2.0
//
// Kernels for float64 over arrays of exactly their size. Gradients are judged by what they are: for a convolution y of
// x and w, and heads g, the sums of g * y, of dx * x and of dw * w are one number.
#include <cmath>

#include "any_request.hpp"
#include "convolution/convolution.hpp"
#include "matmul/matmul.hpp"
#include "norm/norm.hpp"
#include "pooling/pooling.hpp"
#include "softmax/softmax.hpp"

namespace {

using Arrays = std::vector<std::vector<double>>;

Spec of(Shape shape) { return {std::move(shape), MX_FLOAT64}; }

// Arrays of numbers for tensors.
Arrays drawn(const std::vector<Spec>& specs) {
  Arrays made;
  for (const Spec& spec : specs) made.push_back(numbers<double>(spec.size(), 0.1, 1));
  return made;
}

// Runs a plan with every request, and returns what it writes.
Arrays outputs_of(const mx::Signature& s, PlanPtr made, Arrays inputs) {
  const Shared plan = shared(std::move(made));
  std::vector<int64_t> sizes;
  for (const Spec& spec : s.outputs) sizes.push_back(spec.size());
  CHECK(all_requests(plan, inputs, sizes) == MX_OK);
  std::vector<mx_tensor> given, results;
  Arrays outputs;
  for (auto& input : inputs) given.push_back(tensor(input, MX_FLOAT64));
  for (int64_t n : sizes) outputs.emplace_back(static_cast<size_t>(n), 7.0);
  for (auto& output : outputs) results.push_back(tensor(output, MX_FLOAT64));
  CHECK(run(plan, given, results) == MX_OK);
  return outputs;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  CHECK(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

bool near(double a, double b) { return std::fabs(a - b) <= 1e-9 * (1 + std::fabs(a)); }

void judge_convolution(const ConvolutionOptions& o, const Spec& x, const Spec& w, const Spec& y, bool transposed) {
  const mx::Signature forward{{x, w}, {y}}, backward{{y, x, w}, {x, w}};
  const Arrays in = drawn({x, w}), heads = drawn({y});
  const Arrays out = outputs_of(forward, transposed ? deconvolution(forward, o) : convolution(forward, o), in);
  const Arrays grads = outputs_of(
      backward, transposed ? deconvolution_backward(backward, o) : convolution_backward(backward, o),
      {heads[0], in[0], in[1]});
  const double whole = dot(heads[0], out[0]);
  CHECK(near(whole, dot(grads[0], in[0])));
  CHECK(near(whole, dot(grads[1], in[1])));
}

void convolutions() {
  for (int64_t groups : {1, 2, 6})
    for (int64_t stride : {1, 2, 3})
      for (int64_t dilate : {1, 2})
        for (bool last : {false, true})
          for (int64_t width : {5, 31}) {
            const int64_t height = 7, pad = 2, extent = 2 * dilate + 1;
            const int64_t h = (height + 2 * pad - extent) / stride + 1, w = (width + 2 * pad - extent) / stride + 1;
            const ConvolutionOptions o = {{{3, 3}, {stride, stride}, {dilate, dilate}, {pad, pad}}, groups, last, true};
            const Spec large = last ? of({2, height, width, 6}) : of({2, 6, height, width});
            const Spec small = last ? of({2, h, w, 12}) : of({2, 12, h, w});
            const Spec filters = last ? of({12, 3, 3, 6 / groups}) : of({12, 6 / groups, 3, 3});
            judge_convolution(o, large, filters, small, false);
            judge_convolution(o, small, filters, large, true);
          }
}

// Large enough for Winograd's algorithm, with tiles that the borders cut.
void winograd_convolutions() {
  for (bool last : {false, true})
    for (int64_t height : {22, 40}) {  // all images at once; one by one
      const ConvolutionOptions o = {{{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 1, last, true};
      const Spec large = last ? of({2, height, 23, 32}) : of({2, 32, height, 23});
      const Spec small = last ? of({2, height, 23, 40}) : of({2, 40, height, 23});
      const Spec filters = last ? of({40, 3, 3, 32}) : of({40, 32, 3, 3});
      judge_convolution(o, large, filters, small, false);
      judge_convolution(o, small, filters, large, true);
    }
}

void products() {
  for (int64_t m : {1, 9, 270})
    for (int64_t k : {1, 5, 300})
      for (int64_t n : {1, 26})
        for (int which = 0; which < 4; ++which) {
          const MatmulOptions o = {2, m, k, n, which / 2 > 0, which % 2 > 0, false};
          const Spec a = of({2, m * k}), b = of({2, k * n}), c = of({2, m * n});
          const mx::Signature forward{{a, b}, {c}}, backward{{c, a, b}, {a, b}};
          const Arrays in = drawn({a, b}), heads = drawn({c});
          const double whole = dot(heads[0], outputs_of(forward, matmul(forward, o), in)[0]);
          const Arrays grads = outputs_of(backward, dot_backward(backward, o), {heads[0], in[0], in[1]});
          CHECK(near(whole, dot(grads[0], in[0])) && near(whole, dot(grads[1], in[1])));
        }
  const mx::Signature dense{{of({7, 30}), of({50, 30}), of({50})}, {of({7, 50})}};
  outputs_of(dense, fully_connected(dense), drawn(dense.inputs));
  const mx::Signature back{{of({7, 50}), of({7, 30}), of({50, 30})}, {of({7, 30}), of({50, 30}), of({50})}};
  outputs_of(back, fully_connected_backward(back), drawn(back.inputs));
}

void poolings() {
  for (PoolType type : {PoolType::max, PoolType::avg, PoolType::sum, PoolType::lp})
    for (bool last : {false, true})
      for (int64_t width : {2, 9, 200}) {
        if (last && type == PoolType::lp) continue;
        PoolOptions o;
        o.window = {{3, 2}, {2, 2}, {1, 1}, {1, 1}};
        o.type = type, o.channels_last = last;
        const int64_t h = (6 + 2 - 3) / 2 + 1, w = (width + 2 - 2) / 2 + 1;
        const Spec x = last ? of({2, 6, width, 70}) : of({2, 3, 6, width});
        const Spec y = last ? of({2, h, w, 70}) : of({2, 3, h, w});
        const mx::Signature forward{{x}, {y}}, backward{{y, x, y}, {x}};
        const Arrays in = drawn({x}), out = outputs_of(forward, pooling(forward, o), in), heads = drawn({y});
        const Arrays grads = outputs_of(backward, pooling_backward(backward, o), {heads[0], in[0], out[0]});
        if (type != PoolType::lp) CHECK(near(dot(heads[0], out[0]), dot(grads[0], in[0])));
      }
}

void rows() {
  for (int64_t axis : {0, 1, 2})
    for (bool logarithm : {false, true}) {
      const Shape shape = {5, 7, 70};
      const SoftmaxOptions o = {shape, static_cast<int>(axis), logarithm, -0.5};
      const mx::Signature forward{{of(shape)}, {of(shape)}}, backward{{of(shape), of(shape)}, {of(shape)}};
      outputs_of(forward, softmax(forward, o), drawn(forward.inputs));
      outputs_of(backward, softmax_backward(backward, o), drawn(backward.inputs));
    }
  for (int64_t axis : {1, 2}) {
    const int64_t n = axis == 1 ? 7 : 70, rest = 5 * 490 / 5 / n * 5;
    const Spec x = of({5, 7, 70}), vector = of({n}), statistic = of({rest});
    const mx::Signature forward{{x, vector, vector}, {x, statistic, statistic}};
    outputs_of(forward, layer_norm(forward, {axis, 1e-5}), drawn(forward.inputs));
    const mx::Signature backward{{x, x, vector, statistic, statistic}, {x, vector, vector}};
    outputs_of(backward, layer_norm_backward(backward, {axis, 1e-5}), drawn(backward.inputs));
    BatchNormOptions o;
    o.axis = axis;
    const mx::Signature batch{{x, vector, vector, vector, vector}, {x, vector, vector}};
    outputs_of(batch, batch_norm(batch, o), drawn(batch.inputs));
    const mx::Signature back{{x, x, vector, vector, vector, vector, vector}, {x, vector, vector}};
    outputs_of(back, batch_norm_backward(back, o), drawn(back.inputs));
  }
}

}  // namespace

int main() {
  return test::run({{"convolutions", convolutions}, {"Winograd convolutions", winograd_convolutions},
                    {"products", products}, {"poolings", poolings}, {"rows", rows}});
}
