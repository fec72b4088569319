// SPDX-License-Identifier: Apache-2.0
//
// Softmax, losses over it, and pooling, with every request and both types.
#include "pooling/pooling.hpp"
#include "signatures.hpp"
#include "softmax/softmax.hpp"

namespace {

double tolerance(int32_t dtype) { return dtype == MX_FLOAT32 ? 1e-5 : 2e-2; }

void softmaxes() {
  for (int32_t dtype : primitive_types())
    for (int64_t n : {1, 7, 16, 301})
      for (int64_t inner : {1, 3})
        for (bool logarithm : {false, true}) {
          const Spec x({5, n, inner}, dtype);
          const Signature s{{x}, {x}}, back{{x, x}, {x}};
          const SoftmaxOptions o{{5, n, inner}, 1, logarithm, 2.0};
          const auto in = drawn(s);
          Floats y(in[0].size());
          const auto step = static_cast<size_t>(inner), length = static_cast<size_t>(n);
          for (size_t r = 0; r < 5; ++r)
            for (size_t j = 0; j < step; ++j) {
              const size_t first = r * length * step + j;
              double sum = 0;
              for (size_t i = 0; i < length; ++i) sum += std::exp(in[0][first + i * step] / 2.0);
              for (size_t i = 0; i < length; ++i) {
                const double share = std::exp(in[0][first + i * step] / 2.0) / sum;
                y[first + i * step] = static_cast<float>(logarithm ? std::log(share) : share);
              }
            }
          verify(shared(softmax(s, o)), s, in, {y}, tolerance(dtype));
          const auto given = std::vector<Floats>{in[0], y};
          for (uint8_t request : kRequests)
            CHECK(finite(computed(shared(softmax_backward(back, o)), back, given, request)[0]));
          // Shares of a row sum to one, so its gradients sum to nothing.
          const Floats slopes = computed(shared(softmax_backward(back, o)), back, given)[0];
          for (size_t r = 0; r < 5; ++r)
            for (size_t j = 0; j < step; ++j) {
              double sum = 0;
              for (size_t i = 0; i < length; ++i) sum += slopes[(r * length + i) * step + j];
              CHECK(std::fabs(sum) <= tolerance(dtype) * static_cast<double>(length));
            }
        }
}

void losses() {
  const Spec x({6, 9}, MX_FLOAT32), label({6}, MX_FLOAT32), one({1}, MX_FLOAT32);
  const Floats labels = {0, 1, 8, 3, 3, 2};
  const Signature s{{x, label}, {one}}, back{{one, x, label}, {x}}, output{{label, x}, {x}};
  const auto in = drawn(s);
  double want = 0;
  for (size_t r = 0; r < 6; ++r) {
    double sum = 0;
    for (size_t i = 0; i < 9; ++i) sum += std::exp(static_cast<double>(in[0][9 * r + i]));
    want += std::log(sum) - in[0][9 * r + static_cast<size_t>(labels[r])];
  }
  verify(shared(cross_entropy(s)), s, {in[0], labels}, {{static_cast<float>(want)}}, 1e-5);
  for (uint8_t request : kRequests) {
    computed(shared(cross_entropy_backward(back)), back, {{1.0f}, in[0], labels}, request);
    const SoftmaxOutputOptions o{6, 9, 1, 0.1, true, false, Normalization::valid};
    computed(shared(softmax_output_backward(output, o)), output, {labels, in[0]}, request);
  }
}

void poolings() {
  for (int32_t dtype : primitive_types())
    for (PoolType type : {PoolType::max, PoolType::avg, PoolType::sum, PoolType::lp})
      for (bool last : {false, true})
        for (int64_t kernel : {2, 3, 8}) {
          if (last && type != PoolType::max && type != PoolType::avg) continue;  // others have channels second
          const int64_t out = (8 - kernel) / 2 + 1;
          const Spec x = last ? Spec({2, 8, 8, 5}, dtype) : Spec({2, 5, 8, 8}, dtype);
          const Spec y = last ? Spec({2, out, out, 5}, dtype) : Spec({2, 5, out, out}, dtype);
          const PoolOptions o{{{kernel, kernel}, {2, 2}, {1, 1}, {0, 0}}, type, true, 2, last};
          const Signature s{{x}, {y}}, back{{y, x, y}, {x}};
          const Shared plan = shared(pooling(s, o)), gradient = shared(pooling_backward(back, o));
          const auto in = drawn(s);
          const Floats result = computed(plan, s, in)[0];
          for (uint8_t request : kRequests) {
            computed(plan, s, in, request);
            auto given = drawn(back);
            given[1] = in[0], given[2] = result;
            computed(gradient, back, given, request);
          }
          if (type != PoolType::max) continue;
          float first = -2;  // of image 0, channel 0
          for (int64_t i = 0; i < kernel; ++i)
            for (int64_t j = 0; j < kernel; ++j)
              first = std::fmax(first, in[0][static_cast<size_t>(last ? (i * 8 + j) * 5 : i * 8 + j)]);
          CHECK(result[0] == first);
        }
}

}  // namespace

int main() { return test::run({{"softmaxes", softmaxes}, {"losses", losses}, {"poolings", poolings}}); }
