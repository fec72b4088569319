// SPDX-License-Identifier: Apache-2.0
//
// Pooling by oneDNN where its definition agrees, by plain loops elsewhere.
#include "common/float_types.hpp"
#include "pooling/pooling.hpp"
#include "pooling/pooling_loops.hpp"
#include "onednn/primitive_program.hpp"

namespace mx::cpu {
namespace {

Cost pool_cost(const Signature& s, const PoolOptions& o) {
  const Spec& out = s.outputs[0];
  double window = 1;
  for (int64_t k : o.window.kernel) window *= static_cast<double>(k);
  const double points = static_cast<double>(std::min(out.size(), s.inputs[0].size()));
  // Float64 costs little more than float32 as long as a team of threads is in question.
  const size_t item = std::min(item_size(out.dtype), sizeof(float));
  return {points * window, static_cast<double>(s.inputs[0].size() + out.size()) * static_cast<double>(item)};
}

// oneDNN divides an average by the whole window or by the part inside the data; windows that hang
// over the padding at the end, and empty ones, need the loops.  So do windows that are mostly padding, which oneDNN goes
// through element by element.
bool expressible(const Dims& data, const Dims& out, const PoolOptions& o) {
  if (o.type != PoolType::max && o.type != PoolType::avg) return false;
  for (size_t i = 0; i < o.window.kernel.size(); ++i) {
    const int64_t start = (out[i + 2] - 1) * o.window.stride[i] - o.window.pad[i];
    const int64_t length = data[i + 2], k = o.window.kernel[i];
    if (start >= length || o.window.pad[i] >= k || k > 2 * length + 64) return false;
    if (o.type == PoolType::avg && o.count_include_pad && start + k > length + o.window.pad[i]) return false;
  }
  return true;
}

// A tensor as (batch, channels, *spatial), wherever its channels lie.
MemoryDesc channels_second(const Spec& spec, const PoolOptions& o) {
  const int spatial = static_cast<int>(o.window.kernel.size());
  if (spec.shape.size() != o.window.kernel.size() + 2) throw Unsupported{};
  std::vector<int> order = {0, o.channels_last ? spatial + 1 : 1};
  for (int i = 0; i < spatial; ++i) order.push_back(o.channels_last ? i + 1 : i + 2);
  return permuted(spec.shape, data_type(spec), order);
}

// Norms have one kernel, which knows channels before the spatial axes.
bool by_lines(const Signature& s, const PoolOptions& o) {
  require_double(s);
  if (o.type == PoolType::lp && o.channels_last) throw Unsupported{};
  return o.type != PoolType::lp;
}

// Up to this many elements of windows loops are done before oneDNN has begun, and take no primitive.
constexpr int64_t kFew = 8192;

bool has_few(const Spec& windows, const PoolOptions& o) {
  const int64_t each = product(o.window.kernel, 0, o.window.kernel.size());
  return !o.channels_last && windows.shape.size() == o.window.kernel.size() + 2 &&
         (o.type == PoolType::max || o.type == PoolType::avg) && each <= kFew && windows.size() <= kFew / each;
}

struct Geometry {
  MemoryDesc data, out;
  Dims dense, pad_end;
  dnnl::algorithm kind;
  bool loops = false;  // oneDNN cannot

  Geometry(const Spec& x, const Spec& y, const PoolOptions& o)
      : data(channels_second(x, o)), out(channels_second(y, o)), dense(o.window.kernel.size(), 0),
        kind(o.type == PoolType::max       ? dnnl::algorithm::pooling_max
             : o.count_include_pad ? dnnl::algorithm::pooling_avg_include_padding
                                   : dnnl::algorithm::pooling_avg_exclude_padding) {
    const Dims in = data.get_dims(), result = out.get_dims();
    for (size_t i = 0; i < dense.size(); ++i) {
      pad_end.push_back((result[i + 2] - 1) * o.window.stride[i] + o.window.kernel[i] - in[i + 2] - o.window.pad[i]);
    }
    loops = !expressible(in, result, o);
    if (loops && o.channels_last) throw Unsupported{};
  }

  dnnl::pooling_forward::primitive_desc forward(const Window& w, dnnl::prop_kind prop) const {
    return {describing_engine(), prop, kind, data, out, w.stride, w.kernel, dense, w.pad, pad_end,
            ProgramBuilder::attributes()};
  }
};

}  // namespace

PlanPtr pooling(const Signature& signature, const PoolOptions& options) {
  require_counts(signature, 1, 1, 1, 1);
  require_whole(options.window);
  const Spec &x = signature.inputs[0], &y = signature.outputs[0];
  if (is_global_mean(x, y, options)) return global_mean(signature, bandwidth_cost(signature));
  if (is_tiled_max(x, y, options)) return tiled_max(signature, options, pool_cost(signature, options));
  if (x.dtype == MX_FLOAT64) {
    if (by_lines(signature, options)) return double_pooling(signature, options, pool_cost(signature, options));
    return pooling_loops(signature, options, pool_cost(signature, options));
  }
  if (has_few(y, options)) return pooling_loops(signature, options, pool_cost(signature, options));
  const Geometry g(x, y, options);
  if (g.loops) return pooling_loops(signature, options, pool_cost(signature, options));
  ProgramBuilder builder(signature, pool_cost(signature, options));
  builder.step(g.forward(options.window, dnnl::prop_kind::forward_inference),
               {{DNNL_ARG_SRC, builder.input(0, g.data)}, {DNNL_ARG_DST, builder.output(0, g.out)}}, needed_by(0));
  return builder.build();
}

PlanPtr pooling_backward(const Signature& signature, const PoolOptions& options) {
  require_counts(signature, 3, 3, 1, 1);
  require_whole(options.window);
  const Spec &x = signature.inputs[1], &y = signature.inputs[0];
  if (is_global_mean(x, y, options)) return global_mean_backward(signature, bandwidth_cost(signature));
  if (is_tiled_max(x, y, options)) return tiled_max_backward(signature, options, pool_cost(signature, options));
  if (x.dtype == MX_FLOAT64) {
    const Cost cost = pool_cost(signature, options);
    if (by_lines(signature, options)) return double_pooling_backward(signature, options, cost);
    return pooling_backward_loops(signature, options, cost);
  }
  if (has_few(y, options)) return pooling_backward_loops(signature, options, pool_cost(signature, options));
  const Geometry g(x, y, options);
  if (g.loops) return pooling_backward_loops(signature, options, pool_cost(signature, options));
  const Window& w = options.window;
  const auto forward = g.forward(w, dnnl::prop_kind::forward_training);
  const dnnl::pooling_backward::primitive_desc backward(describing_engine(), g.kind, g.data, g.out, w.stride, w.kernel, g.dense,
                                                        w.pad, g.pad_end, forward, ProgramBuilder::attributes());
  ProgramBuilder builder(signature, pool_cost(signature, options));
  ProgramBuilder::Arguments arguments = {{DNNL_ARG_DIFF_DST, builder.input(0, g.out)},
                                         {DNNL_ARG_DIFF_SRC, builder.output(0, g.data)}};
  if (options.type == PoolType::max) {
    // Where the maxima were is not among the operator's outputs: found again.
    const Slot where = builder.scratch(forward.workspace_desc());
    builder.step(forward, {{DNNL_ARG_SRC, builder.input(1, g.data)}, {DNNL_ARG_DST, builder.scratch(g.out)},
                           {DNNL_ARG_WORKSPACE, where}}, needed_by(0));
    arguments.emplace_back(DNNL_ARG_WORKSPACE, where);
  }
  builder.step(backward, std::move(arguments), needed_by(0));
  return builder.build();
}

}  // namespace mx::cpu
