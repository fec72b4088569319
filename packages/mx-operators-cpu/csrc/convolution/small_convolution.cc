// SPDX-License-Identifier: Apache-2.0
#include "convolution/small_convolution.hpp"

#include <algorithm>
#include <limits>

#include "convolution/padded_products.hpp"
#include "convolution/scattered_products.hpp"

namespace mx::cpu {
namespace {

constexpr double kMostMacs = 1 << 17;  // of whole tiles: with more, primitives begin to be faster
constexpr int64_t kMostTaps = 4096;

class SmallConvolution final : public Plan {
 public:
  SmallConvolution(const Signature& s, const Cost& cost, const ConvolutionGeometry& geometry, bool transposed,
                   PaddedProduct<float> product)
      : Plan(s, cost), geometry_(geometry), transposed_(transposed), product_(std::move(product)),
        images_(add_scratch(product_.bytes())) {}

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const float* bias = inputs_.size() == 3 ? call.input<float>(2) : nullptr;
    const float *data = call.input<float>(0), *weight = call.input<float>(1);
    const ConvolutionResult<float> result = {call.output<float>(0), call.adds(0), bias};
    if (transposed_ && !weights_are_finite(geometry_, weight))
      return scatter_products(geometry_, data, weight, result);
    product_.run(data, weight, result, call.scratch<float>(images_));
  }

  const ConvolutionGeometry geometry_;
  const bool transposed_;
  const PaddedProduct<float> product_;
  const Section images_;
};

bool of_floats(const Signature& s) {
  const auto is_float = [](const Spec& spec) { return spec.dtype == MX_FLOAT32; };
  return std::all_of(s.inputs.begin(), s.inputs.end(), is_float) && is_float(s.outputs[0]);
}

// Windows that skip positions are copied slowly, thin groups fill no tiles, and primitives take channels that are last
// as they are.
bool suits(const ConvolutionGeometry& g, int64_t made) {
  const auto skips = [](const ConvolutionAxis& axis) { return axis.stride > 1; };
  return !g.channels_last && !std::any_of(std::begin(g.axes), std::end(g.axes), skips) &&
         (g.groups == 1 || made >= 4) && g.macs() <= kMostMacs && g.taps() <= kMostTaps;
}

}  // namespace

PlanPtr small_convolution(const Signature& s, const ConvolutionOptions& options, bool transposed) {
  if (!of_floats(s)) return nullptr;
  const Spec &data = s.inputs[0], &out = s.outputs[0];
  const ConvolutionGeometry g(options, transposed ? out : data, s.inputs[1], transposed ? data : out);
  const int64_t made = transposed ? g.channels : g.filters;
  if (!suits(g, made)) return nullptr;
  if (s.inputs.size() == 3) require_size(s.inputs[2], g.groups * made);
  const std::vector<Gather> gathers = transposed ? large_from_small(g) : std::vector<Gather>{small_from_large(g)};
  constexpr PaddedProduct<float>::Limits kAny = {1, std::numeric_limits<int64_t>::max(),
                                                 std::numeric_limits<double>::max()};
  if (!PaddedProduct<float>::suits(g, transposed, gathers, kAny)) return nullptr;
  PaddedProduct<float> product(g, transposed, gathers);
  if (product.macs() > kMostMacs) return nullptr;
  Cost cost = bandwidth_cost(s);
  cost.flops = 2 * g.macs();
  return std::make_unique<SmallConvolution>(s, cost, g, transposed, std::move(product));
}

}  // namespace mx::cpu
