// SPDX-License-Identifier: Apache-2.0
#include "convolution/fused_layer.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "convolution/convolution_shape.hpp"
#include "convolution/filter_blocks.hpp"
#include "onednn/primitive_program.hpp"
#include "onednn/recent.hpp"
#include "convolution/winograd_steps.hpp"

namespace mx::cpu {
namespace {

using Descriptor = dnnl::primitive_desc_base;
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

// Names the order of filters that Winograd's algorithm reads, where others begin with a type.
constexpr int64_t kFilterPoints = -1;

// Layers, with what follows them, whose descriptors are kept.
constexpr size_t kRecentDescriptors = 128;

// A few rows are bound by reading the weight, which plain loops do as well.
constexpr int64_t kFewRows = 4;

// The problem of one call: tensors in the memory they have.
struct FusedProblem {
  FusedProblem(const Signature& s, const FusedOptions& o) {
    const size_t expected = 2 + (o.biased ? 1 : 0) + (o.residual ? 1 : 0);
    if (s.inputs.size() != expected || s.outputs.size() != 1) throw Unsupported{};
    const Spec& x = s.inputs[0];
    const Spec w = {o.weight_shape, x.dtype};
    if (o.product) {
      as_product(x, w);
    } else {
      shape = std::make_unique<ConvolutionShape>(o.convolution, false, x, w, s.outputs[0]);
      if (shape->compute != data_type(x)) throw Unsupported{};
      data = shape->data, weight = shape->weight, out = shape->out, cost = shape->cost();
    }
    const int64_t filters = shape != nullptr ? shape->filters() : out.get_dims()[1];
    if (o.biased) require_size(s.inputs[2], filters);
    if (o.residual) require_size(s.inputs[o.biased ? 3 : 2], s.outputs[0].size());
    if (o.biased) bias = plain(o.product ? Dims{1, s.inputs[2].size()} : s.inputs[2].shape, data_type(s.inputs[2]));
  }

  // With the weight in the order that the primitive likes best, or as it is.  Throws Unsupported where oneDNN has
  // nothing but its reference, hundreds of times slower than a layer and an addition of their own, or a product of
  // copied windows, several times slower than a layer that may choose the order of its data: where that is small next to
  // the filters, their order counts for more.
  Descriptor descriptor(const FusedOptions& o, Residual residual, bool free) const {
    // oneDNN tries implementations and blockings, and compiling a graph asks several times: whether a layer can be
    // fused, what order its weight should have, how that is packed, and how it runs then.
    static auto* const recent = new Recent<Descriptor>(kRecentDescriptors);
    return recent->get(key(o, residual, free), [&] {
      Descriptor made = any_descriptor(o, residual, free);
      const std::string_view name(made.impl_info_str());
      if (name.substr(0, 3) == "ref" || (reordering_pays(o) && name.find(":gemm") != name.npos)) throw Unsupported{};
      return made;
    });
  }

  std::unique_ptr<ConvolutionShape> shape;  // null: a product
  MemoryDesc data, weight, bias, out;
  Cost cost;

 private:
  bool reordering_pays(const FusedOptions& o) const {
    return shape != nullptr && !o.convolution.channels_last &&
           product(weight.get_dims()) <= product(data.get_dims()) + product(out.get_dims());
  }

  // All that `any_descriptor` depends on.
  std::vector<int64_t> key(const FusedOptions& o, Residual residual, bool free) const {
    std::vector<int64_t> made = {team_size(), static_cast<int64_t>(residual), free, shape == nullptr};
    const auto append = [&](const Dims& list) {
      made.push_back(static_cast<int64_t>(list.size()));
      made.insert(made.end(), list.begin(), list.end());
    };
    for (const MemoryDesc* tensor : {&data, &weight, &bias, &out}) {
      append(tensor->get_dims());
      append(tensor->get_ndims() == 0 ? Dims{} : tensor->get_strides());
      made.push_back(static_cast<int64_t>(tensor->get_data_type()));
    }
    if (shape != nullptr) {
      for (const Dims* list : {&shape->window.stride, &shape->window.dilate, &shape->window.pad, &shape->pad_end}) {
        append(*list);
      }
      made.push_back(static_cast<int64_t>(shape->kind));
    }
    append(Dims(o.activation.begin(), o.activation.end()));
    for (const double value : {o.alpha, o.beta}) {
      int64_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      made.push_back(bits);
    }
    return made;
  }

  Descriptor any_descriptor(const FusedOptions& o, Residual residual, bool free) const {
    const dnnl::primitive_attr attr = attributes(o, residual, out);
    const MemoryDesc w = free ? any_layout(weight) : weight;
    if (shape == nullptr) return dnnl::matmul::primitive_desc(describing_engine(), data, w, bias, out, attr);
    const Window& v = shape->window;
    return dnnl::convolution_forward::primitive_desc(describing_engine(), dnnl::prop_kind::forward_inference,
                                                     shape->kind, data, w, bias, out, v.stride, v.dilate, v.pad,
                                                     shape->pad_end, attr);
  }

  void as_product(const Spec& x, const Spec& w) {
    const int64_t depth = extent(w.shape, 1), hidden = extent(w.shape, 0);
    if (depth < 1 || hidden < 1 || x.size() % depth != 0) throw Unsupported{};
    const int64_t rows = x.size() / depth;
    if (rows <= kFewRows) throw Unsupported{};
    data = plain({rows, depth}, data_type(x)), out = plain({rows, hidden}, data_type(x));
    weight = plain({hidden, depth}, data_type(w)).permute_axes({1, 0});
    const auto m = static_cast<double>(rows), k = static_cast<double>(depth), n = static_cast<double>(hidden);
    cost = {2 * m * k * n, 4 * (m * k + k * n + m * n)};
  }
};

// What Winograd's algorithm makes of a layer; nothing where it would not be faster or lacks the activation.
struct WinogradFusion {
  WinogradProblem problem;
  Epilogue<float> epilogue;
};

std::optional<Epilogue<float>> epilogue_of(const FusedOptions& o) {
  using Activation = WinogradActivation;
  static const std::map<std::string, Activation> known = {
      {"", Activation::none}, {"relu", Activation::relu}, {"leaky", Activation::leaky}, {"clip", Activation::clip}};
  const auto found = known.find(o.activation);
  if (found == known.end()) return std::nullopt;
  Epilogue<float> epilogue;
  epilogue.activation = found->second;
  epilogue.alpha = static_cast<float>(o.alpha), epilogue.beta = static_cast<float>(o.beta);
  return epilogue;
}

std::optional<WinogradFusion> winograd_of(const FusedProblem& problem, const FusedOptions& o, bool packed) {
  if (problem.shape == nullptr) return std::nullopt;
  const auto found = winograd_problem(o.convolution, *problem.shape);
  const auto epilogue = epilogue_of(o);
  if (!found || !epilogue || !pays(*found, packed)) return std::nullopt;
  return WinogradFusion{*found, *epilogue};
}

PlanPtr winograd_plan(const Signature& s, const FusedOptions& o, const FusedProblem& problem, const WinogradFusion& m) {
  ProgramBuilder builder(s, problem.cost);
  const MemoryDesc &x = problem.shape->data, &y = problem.shape->out;
  const Slot out = builder.output(0, y);
  int index = 2;
  WinogradLayer layer;
  layer.data = builder.as(builder.input(0, x), channels_last_of(x), 1);
  layer.filters = builder.input(1, o.packed ? filter_points_of(m.problem) : problem.weight);
  layer.ready = o.packed;
  layer.epilogue = m.epilogue;
  if (o.biased) layer.bias = builder.input(index++, problem.bias);
  if (o.residual) layer.residual = builder.as(builder.input(index, y), channels_last_of(y), 1);
  layer.out = builder.target(out, channels_last_of(y));
  add_convolution(builder, m.problem, filter_layout(problem.weight), layer, 1);
  builder.deliver(layer.out, out, 1);
  return builder.build();
}

MemoryDesc weights_of(const Descriptor& desc) { return desc.query_md(dnnl::query::weights_md, 0); }

PlanPtr plan(const Signature& s, const FusedOptions& o, const FusedProblem& problem, const Descriptor& desc,
             Residual residual) {
  ProgramBuilder builder(s, problem.cost);
  const MemoryDesc wanted = weights_of(desc);
  const Slot weight = o.packed ? builder.input(1, wanted) : builder.as(builder.input(1, problem.weight), wanted, 1);
  ProgramBuilder::Arguments arguments = {{DNNL_ARG_SRC, builder.input(0, problem.data)},
                                         {DNNL_ARG_WEIGHTS, weight},
                                         {DNNL_ARG_DST, builder.output(0, problem.out)}};
  if (o.biased) arguments.emplace_back(DNNL_ARG_BIAS, builder.input(2, problem.bias));
  if (residual == Residual::separate) {
    const int index = static_cast<int>(s.inputs.size()) - 1;
    arguments.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, builder.input(index, problem.out));
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
    add_scratch(scratch);
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

  size_t staging(const uint8_t* req) const override { return mx_plan_staging(add_.get(), req, 1); }

  const PlanPtr sum_, add_;
};

}  // namespace

PlanPtr fused_layer(const Signature& signature, const FusedOptions& options) {
  const FusedProblem problem(signature, options);
  if (const auto found = winograd_of(problem, options, options.packed)) {
    return winograd_plan(signature, options, problem, *found);
  }
  const TeamScope threads(problem.cost.parallel() ? team_size() : 1);
  const bool free = options.packed || !options.product;  // a product reads a plain weight as fast as it could pack it
  const Residual residual = options.residual ? Residual::separate : Residual::none;
  const Descriptor desc = problem.descriptor(options, residual, free);
  PlanPtr add = plan(signature, options, problem, desc, residual);
  if (!options.residual) return add;
  const Descriptor summing = problem.descriptor(options, Residual::summed, free);
  if (options.packed && weights_of(summing) != weights_of(desc)) throw Unsupported{};
  PlanPtr sum = plan(signature, options, problem, summing, Residual::summed);
  return std::make_unique<SumOrAdd>(signature, problem.cost, std::move(sum), std::move(add));
}

namespace {

MemoryDesc packed_weight(const FusedProblem& problem, const FusedOptions& options) {
  if (const auto found = winograd_of(problem, options, true)) return filter_points_of(found->problem);
  const TeamScope threads(problem.cost.parallel() ? team_size() : 1);
  return weights_of(problem.descriptor(options, options.residual ? Residual::separate : Residual::none, true));
}

}  // namespace

int64_t packed_weight_size(const Signature& signature, const FusedOptions& options) {
  return static_cast<int64_t>((packed_weight(FusedProblem(signature, options), options).get_size() + 3) / 4);
}

std::vector<int64_t> packed_weight_format(const Signature& signature, const FusedOptions& options) {
  const FusedProblem problem(signature, options);
  if (const auto found = winograd_of(problem, options, true)) {
    return {kFilterPoints, found->problem.channels, found->problem.filters};
  }
  return format_of(packed_weight(problem, options));
}

PlanPtr pack_weight(const Signature& signature, const Signature& layer, const FusedOptions& options, bool channels_first) {
  const FusedProblem problem(layer, options);
  const MemoryDesc& read = problem.weight;
  if (channels_first && problem.shape == nullptr) throw Unsupported{};
  const MemoryDesc given = channels_first ? plain(read.get_dims(), read.get_data_type()) : read;
  // Asked before the builder sets the size of its team: the order that a layer wants depends on the layer's.
  const auto winograd = winograd_of(problem, options, true);
  const MemoryDesc wanted = packed_weight(problem, options);
  ProgramBuilder builder(signature, bandwidth_cost(signature));
  const Slot packed = builder.output(0, wanted);
  Slot weight = builder.input(0, given), scale = -1;
  auto blocks = filter_blocks(given, wanted);
  if (signature.inputs.size() > 1) {
    const Spec& factors = signature.inputs[1];
    if (factors.size() < 1 || given.get_data_type() != DataType::f32) throw Unsupported{};
    scale = builder.input(1, plain({factors.size()}, DataType::f32));
    if (!blocks || blocks->filters != factors.size()) {
      weight = add_scaled_rows(builder, given, factors.size(), weight, scale, 1);
      scale = -1;
    }
  }
  if (winograd) {
    add_filter_points(builder, winograd->problem, filter_layout(given), weight, packed, 1);
  } else if (blocks) {
    add_filter_blocks(builder, std::move(*blocks), weight, scale, packed, 1);
  } else {
    builder.deliver(weight, packed, 1);
  }
  return builder.build();
}

}  // namespace mx::cpu
