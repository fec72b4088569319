// SPDX-License-Identifier: Apache-2.0
#include "fused.h"

#include <algorithm>
#include <map>

#include "convolution_shape.h"
#include "program.h"

namespace mx::onednn {
namespace {

using Descriptor = dnnl::convolution_forward::primitive_desc;
using dnnl::algorithm;

enum class Residual { none, summed, separate };  // summed: it lies where the output goes

void append_activation(dnnl::post_ops& ops, const FusedOptions& o) {
  if (o.activation.empty()) return;
  static const std::map<std::string, algorithm> known = {
      {"relu", algorithm::eltwise_relu},       {"sigmoid", algorithm::eltwise_logistic},
      {"tanh", algorithm::eltwise_tanh},       {"softrelu", algorithm::eltwise_soft_relu},
      {"leaky", algorithm::eltwise_relu},      {"clip", algorithm::eltwise_clip},
      {"gelu", algorithm::eltwise_gelu_erf},
  };
  const auto found = known.find(o.activation);
  if (found == known.end()) throw Unsupported{};
  const double alpha = o.activation == "softrelu" ? 1 : o.alpha;
  ops.append_eltwise(found->second, static_cast<float>(alpha), static_cast<float>(o.beta));
}

dnnl::primitive_attr attributes(const FusedOptions& o, Residual residual, const MemoryDesc& out) {
  dnnl::primitive_attr attr = ProgramBuilder::attributes();
  dnnl::post_ops ops;
  if (residual == Residual::summed) ops.append_sum(1.f);
  if (residual == Residual::separate) ops.append_binary(algorithm::binary_add, out);
  append_activation(ops, o);
  attr.set_post_ops(ops);
  return attr;
}

// The problem of one call: tensors in the memory they have, the weight as the primitive wants it.
struct Problem {
  Problem(const Signature& s, const FusedOptions& o)
      : shape(o.convolution, false, s.inputs[0], {o.weight_shape, s.inputs[0].type}, s.outputs[0]) {
    const size_t expected = 2 + (o.biased ? 1 : 0) + (o.residual ? 1 : 0);
    if (s.inputs.size() != expected) throw Unsupported{};
    if (o.biased) bias = plain(s.inputs[2].shape, s.inputs[2].type);
  }

  Descriptor descriptor(const FusedOptions& o, Residual residual) const {
    const dnnl::primitive_attr attr = attributes(o, residual, shape.out);
    const Window& w = shape.window;
    return {cpu_engine(), dnnl::prop_kind::forward_inference, shape.kind, shape.data, any_layout(shape.weight),
            bias, shape.out, w.stride, w.dilate, w.pad, shape.pad_end, attr};
  }

  ConvolutionShape shape;
  MemoryDesc bias;
};

PlanPtr plan(const Signature& s, const FusedOptions& o, const Problem& problem, const Descriptor& desc,
             Residual residual) {
  ProgramBuilder builder(s, problem.shape.cost());
  const MemoryDesc wanted = desc.weights_desc();
  const Slot weight = o.packed ? builder.input(1, wanted) : builder.as(builder.input(1, problem.shape.weight), wanted, 1);
  ProgramBuilder::Arguments arguments = {{DNNL_ARG_SRC, builder.input(0, problem.shape.data)},
                                         {DNNL_ARG_WEIGHTS, weight},
                                         {DNNL_ARG_DST, builder.output(0, problem.shape.out)}};
  if (o.biased) arguments.emplace_back(DNNL_ARG_BIAS, builder.input(2, problem.bias));
  if (residual == Residual::separate) {
    const int index = static_cast<int>(s.inputs.size()) - 1;
    arguments.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, builder.input(index, problem.shape.out));
  }
  builder.step(desc, std::move(arguments), 1);
  return builder.build();
}

// Runs one of two plans: where the output may overwrite the residual, the sum costs no memory traffic.
class SumOrAdd final : public Plan {
 public:
  SumOrAdd(const Signature& s, const Cost& cost, PlanPtr sum, PlanPtr add)
      : Plan(s, cost), sum_(std::move(sum)), add_(std::move(add)) {
    size_t scratch = 0;
    for (const mx_plan* p : {static_cast<mx_plan*>(sum_.get()), static_cast<mx_plan*>(add_.get())}) {
      if (p->n_scratch > 0) scratch = std::max(scratch, p->scratch_bytes[0]);
    }
    set_scratch(scratch);
  }

 private:
  void execute(const Call& call) const override {
    const size_t residual = signature_.inputs.size() - 1;
    const bool same = call.inputs[residual].data == call.outputs[0].data && !call.adds(0);
    const mx_plan* chosen = same ? sum_.get() : add_.get();
    mx_error error{};
    const auto n = static_cast<uint32_t>(signature_.inputs.size());
    const int32_t code = chosen->run(chosen, &call.context, call.inputs, n, call.outputs, call.req, 1, &error);
    if (code != MX_OK) throw Error(static_cast<mx_status>(code), error.message);
  }

  const PlanPtr sum_, add_;
};

}  // namespace

PlanPtr fused_convolution(const Signature& signature, const FusedOptions& options) {
  const Problem problem(signature, options);
  const ThreadScope threads(problem.shape.cost().parallel() ? omp_get_max_threads() : 1);
  const Residual residual = options.residual ? Residual::separate : Residual::none;
  const Descriptor desc = problem.descriptor(options, residual);
  PlanPtr add = plan(signature, options, problem, desc, residual);
  if (!options.residual) return add;
  const Descriptor summing = problem.descriptor(options, Residual::summed);
  const bool same_weight = summing.weights_desc() == desc.weights_desc();
  if (options.packed && !same_weight) throw Unsupported{};
  PlanPtr sum = plan(signature, options, problem, summing, Residual::summed);
  return std::make_unique<SumOrAdd>(signature, problem.shape.cost(), std::move(sum), std::move(add));
}

namespace {

MemoryDesc packed_weight(const Signature& signature, const FusedOptions& options) {
  const Problem problem(signature, options);
  const ThreadScope threads(problem.shape.cost().parallel() ? omp_get_max_threads() : 1);
  return problem.descriptor(options, options.residual ? Residual::separate : Residual::none).weights_desc();
}

}  // namespace

int64_t packed_convolution_size(const Signature& signature, const FusedOptions& options) {
  return static_cast<int64_t>((packed_weight(signature, options).get_size() + 3) / 4);
}

PlanPtr pack_convolution(const Signature& signature, const Signature& convolution, const FusedOptions& options) {
  const MemoryDesc wanted = packed_weight(convolution, options);
  const Problem problem(convolution, options);
  ProgramBuilder builder(signature, bandwidth_cost(signature));
  const Slot weight = builder.input(0, problem.shape.weight), packed = builder.output(0, wanted);
  builder.deliver(weight, packed, 1);
  return builder.build();
}

namespace {

// A few rows are bound by reading the weight, which plain loops do as well.
constexpr int64_t kFewRows = 4;

PlanPtr product_plan(const Signature& s, const FusedOptions& o, Residual residual) {
  const Spec &x = s.inputs[0], &w = s.inputs[1];
  const int64_t depth = extent(w.shape, 1), hidden = extent(w.shape, 0), rows = x.size() / depth;
  if (rows <= kFewRows) throw Unsupported{};
  const MemoryDesc data = plain({rows, depth}, x.type), out = plain({rows, hidden}, x.type);
  const MemoryDesc weight = plain({hidden, depth}, w.type).permute_axes({1, 0});
  const MemoryDesc bias = o.biased ? plain({1, hidden}, s.inputs[2].type) : MemoryDesc();
  const auto m = static_cast<double>(rows), k = static_cast<double>(depth), n = static_cast<double>(hidden);
  ProgramBuilder builder(s, {2 * m * k * n, 4 * (m * k + k * n + m * n)});
  ProgramBuilder::Arguments arguments = {{DNNL_ARG_SRC, builder.input(0, data)},
                                         {DNNL_ARG_WEIGHTS, builder.input(1, weight)},
                                         {DNNL_ARG_DST, builder.output(0, out)}};
  if (o.biased) arguments.emplace_back(DNNL_ARG_BIAS, builder.input(2, bias));
  if (residual == Residual::separate) {
    const int index = static_cast<int>(s.inputs.size()) - 1;
    arguments.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, builder.input(index, out));
  }
  builder.step(dnnl::matmul::primitive_desc(cpu_engine(), data, weight, bias, out, attributes(o, residual, out)),
               std::move(arguments), 1);
  return builder.build();
}

}  // namespace

PlanPtr fused_fully_connected(const Signature& signature, const FusedOptions& options) {
  const size_t expected = 2 + (options.biased ? 1 : 0) + (options.residual ? 1 : 0);
  if (signature.inputs.size() != expected) throw Unsupported{};
  if (!options.residual) return product_plan(signature, options, Residual::none);
  const auto flops = 2 * static_cast<double>(signature.inputs[0].size()) * static_cast<double>(extent(signature.inputs[1].shape, 0));
  return std::make_unique<SumOrAdd>(signature, Cost{flops, 0}, product_plan(signature, options, Residual::summed),
                                    product_plan(signature, options, Residual::separate));
}

}  // namespace mx::onednn
