// SPDX-License-Identifier: Apache-2.0
#include "softmax/softmax.hpp"

#include <algorithm>
#include <limits>

#include "common/clones.hpp"
#include "common/parallel.hpp"
#include "softmax/double_softmax.hpp"
#include "onednn/primitive_program.hpp"
#include "softmax/softmax_columns.hpp"
#include "softmax/softmax_rows.hpp"

namespace mx::cpu {
namespace {

dnnl::algorithm kind(const SoftmaxOptions& options) {
  return options.logarithm ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate;
}

Cost cost(const Spec& spec) {
  return {40.0 * static_cast<double>(spec.size()), 2.0 * static_cast<double>(spec.bytes())};
}

dnnl::softmax_forward::primitive_desc forward_descriptor(const SoftmaxOptions& options, const MemoryDesc& desc) {
  return {describing_engine(), dnnl::prop_kind::forward_training, kind(options), desc, desc, options.axis,
          ProgramBuilder::attributes()};
}

// slot *= 1 / temperature
void scale(ProgramBuilder& builder, const SoftmaxOptions& options, const MemoryDesc& desc, Slot from, Slot to) {
  builder.step(dnnl::eltwise_forward::primitive_desc(describing_engine(), dnnl::prop_kind::forward_inference,
                                                     dnnl::algorithm::eltwise_linear, desc, desc,
                                                     static_cast<float>(1 / options.temperature), 0.f,
                                                     ProgramBuilder::attributes()),
               {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}}, needed_by(0));
}

// Memory in which the axis is contiguous: other axes would be taken by slow generic code.
MemoryDesc axis_last(const SoftmaxOptions& options, DataType type) {
  const int rank = static_cast<int>(options.view.size());
  Dims steps(options.view.size());
  int64_t step = options.view[static_cast<size_t>(options.axis)];
  steps[static_cast<size_t>(options.axis)] = 1;
  for (int i = rank; i-- > 0;) {
    if (i == options.axis) continue;
    steps[static_cast<size_t>(i)] = step;
    step *= options.view[static_cast<size_t>(i)];
  }
  return {options.view, type, steps};
}

// A row that holds a NaN becomes NaN: its sum is none. oneDNN's vectors leave some of its elements at 0 or finite, other
// ones on each processor. Bits are compared, which no option of a compiler changes.
template <class Word>
MX_INLINE bool holds_nan(const Word* y, int64_t n, Word infinity) {
  const auto magnitude = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
  Word largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, static_cast<Word>(y[i] & magnitude));
  return largest > infinity;
}

template <class Word>
MX_INLINE void spread_nans(Word* y, int64_t rows, int64_t n, Word infinity, Word nan) {
  if (!holds_nan(y, rows * n, infinity)) return;  // nearly always, and rows may be short
  for (; rows > 0; --rows, y += n)
    if (holds_nan(y, n, infinity)) std::fill(y, y + n, nan);
}

// Has every row of a slot, whose rows are contiguous, be NaN if one of its elements is.
void spread_nans(ProgramBuilder& builder, Slot slot, int64_t rows, int64_t length, bool narrow) {
  constexpr int64_t kShared = 1 << 17;  // elements from which threads are worth their start
  const int most = rows * length < kShared ? 1 : std::numeric_limits<int>::max();
  builder.host(
      [slot, rows, length, narrow, most](void* const* slots, const Call&) {
        const auto spread = [&](int64_t begin, int64_t end) {
          const int64_t at = begin * length;
          if (narrow) {
            best_clone<spread_nans<uint16_t>>(static_cast<uint16_t*>(slots[slot]) + at, end - begin, length,
                                              uint16_t{0x7f80}, uint16_t{0x7fc0});
          } else {
            best_clone<spread_nans<uint32_t>>(static_cast<uint32_t*>(slots[slot]) + at, end - begin, length,
                                              0x7f800000u, 0x7fc00000u);
          }
        };
        parallel_shares(rows, spread, most);
      },
      {slot}, needed_by(0));
}

// The extent of the axis, where our own loops over rows are faster, from `shortest` on; else 0.
int64_t row_length(const SoftmaxOptions& options, const Signature& signature, int64_t shortest) {
  const auto axis = static_cast<size_t>(options.axis);
  const int64_t length = extent(options.view, axis);
  const bool last = product(options.view, axis + 1, options.view.size()) == 1;
  return last && length >= shortest && data_type(signature.outputs[0]) == DataType::f32 ? length : 0;
}

// Whether our own loops over columns know the view: faster than a primitive between two that permute the axes.
bool by_columns(const SoftmaxOptions& options, const Signature& signature) {
  return data_type(signature.outputs[0]) == DataType::f32 && columns_suit(AxisView(options.view, options.axis));
}

}  // namespace

PlanPtr softmax(const Signature& signature, const SoftmaxOptions& options) {
  require_counts(signature, 1, 2, 1, 1);
  if (signature.outputs[0].dtype == MX_FLOAT64) return double_softmax(signature, options);
  if (const int64_t length = row_length(options, signature, 16))
    return softmax_rows(signature, length, options.logarithm, options.temperature);
  if (by_columns(options, signature)) return softmax_columns(signature, options);
  const DataType type = data_type(signature.inputs[0]);
  const MemoryDesc desc = plain(options.view, type), inner = axis_last(options, type);
  ProgramBuilder builder(signature, cost(signature.outputs[0]));
  const Slot output = builder.output(0, desc), to = builder.target(output, inner);
  Slot from = builder.as(builder.input(0, desc), inner, needed_by(0));
  if (options.temperature != 1) {
    scale(builder, options, inner, from, to);
    from = to;
  }
  builder.step(forward_descriptor(options, inner), {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}}, needed_by(0));
  const int64_t length = extent(options.view, static_cast<size_t>(options.axis));
  if (length > 0) spread_nans(builder, to, signature.outputs[0].size() / length, length, type != DataType::f32);
  builder.deliver(to, output, needed_by(0));
  return builder.build();
}

PlanPtr softmax_backward(const Signature& signature, const SoftmaxOptions& options) {
  require_counts(signature, 2, 3, 1, 1);
  if (signature.outputs[0].dtype == MX_FLOAT64) return double_softmax_backward(signature, options);
  if (const int64_t length = row_length(options, signature, 4))
    return softmax_rows_backward(signature, length, options.logarithm, options.temperature);
  if (by_columns(options, signature)) return softmax_columns_backward(signature, options);
  const DataType type = data_type(signature.inputs[0]);
  const MemoryDesc desc = plain(options.view, type), inner = axis_last(options, type);
  ProgramBuilder builder(signature, cost(signature.outputs[0]));
  const Slot grad = builder.output(0, desc), to = builder.target(grad, inner);
  const Slot out_grad = builder.as(builder.input(0, desc), inner, needed_by(0));
  const Slot output = builder.as(builder.input(1, desc), inner, needed_by(0));
  builder.step(dnnl::softmax_backward::primitive_desc(describing_engine(), kind(options), inner, inner, inner, options.axis,
                                                      forward_descriptor(options, inner), ProgramBuilder::attributes()),
               {{DNNL_ARG_DIFF_DST, out_grad}, {DNNL_ARG_DST, output}, {DNNL_ARG_DIFF_SRC, to}}, needed_by(0));
  if (options.temperature != 1) scale(builder, options, inner, to, to);
  builder.deliver(to, grad, needed_by(0));
  return builder.build();
}

}  // namespace mx::cpu
