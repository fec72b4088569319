// SPDX-License-Identifier: Apache-2.0
#include "attention/head_products.hpp"

#include <cstring>
#include <utility>

#include "common/clones.hpp"
#include "common/float_types.hpp"
#include "matmul/gemm.hpp"
#include "onednn/primitive_program.hpp"

namespace mx::cpu {
namespace {

using Zeros = HeadProducts::Zeros;

void clear(const Zeros& zeros, void* data, int64_t item) {
  auto* bytes = static_cast<char*>(data);
  parallel_shares(zeros.count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::memset(bytes + (i * zeros.parts + zeros.first) * zeros.size * item, 0,
                  static_cast<size_t>((zeros.last - zeros.first) * zeros.size * item));
  });
}

// ---- oneDNN ----

void add_product(ProgramBuilder& builder, const HeadProducts::Product& p, DataType type) {
  dnnl::primitive_attr attributes = ProgramBuilder::attributes();
  if (p.scale != 1) {
    dnnl::post_ops after;
    after.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(p.scale), 0);
    attributes.set_post_ops(after);
  }
  const auto desc = [&](const Matrices& m) {
    return MemoryDesc({m.count, m.rows, m.columns}, type, Dims{m.step, m.row, m.column});
  };
  const auto offset = [&](const Matrices& m) {
    return static_cast<size_t>(m.offset) * dnnl::memory::data_type_size(type);
  };
  builder.step(dnnl::matmul::primitive_desc(describing_engine(), desc(p.x), desc(p.y), desc(p.z), attributes),
               {{DNNL_ARG_SRC, builder.input(p.a, desc(p.x), offset(p.x))},
                {DNNL_ARG_WEIGHTS, builder.input(p.b, desc(p.y), offset(p.y))},
                {DNNL_ARG_DST, builder.output(p.out, desc(p.z), offset(p.z))}},
               needed_by(p.out));
}

PlanPtr primitives(const Signature& s, const Cost& cost, const HeadProducts& steps) {
  const DataType type = data_type(s.outputs[0]);
  ProgramBuilder builder(s, cost);
  for (const HeadProducts::Product& p : steps.products) add_product(builder, p, type);
  if (steps.zeros) {
    const Zeros zeros = *steps.zeros;
    const Spec& spec = s.outputs[static_cast<size_t>(zeros.out)];
    const Slot slot = builder.output(zeros.out, plain(spec.shape, type));
    const auto item = static_cast<int64_t>(dnnl::memory::data_type_size(type));
    builder.host([=](void* const* slots, const Call&) { clear(zeros, slots[slot], item); }, {slot},
                 needed_by(zeros.out));
  }
  return builder.build();
}

// ---- float64 ----

// Rows of contiguous elements, scaled.
class ScaledRows final : public Destination<double> {
 public:
  ScaledRows(double* data, int64_t row_step, double scale, bool add)
      : data_(data), row_step_(row_step), scale_(scale), add_(add) {}
  void put(int64_t row, int64_t column, const double* sums, int64_t n, bool first) const override {
    best_clone<put_scaled>(data_ + row * row_step_ + column, sums, n, scale_, add_ || !first);
  }

 private:
  static MX_INLINE void put_scaled(double* to, const double* sums, int64_t n, double scale, bool add) {
    if (add) {
      for (int64_t j = 0; j < n; ++j) to[j] += scale * sums[j];
    } else {
      for (int64_t j = 0; j < n; ++j) to[j] = scale * sums[j];
    }
  }

  double* const data_;
  const int64_t row_step_;
  const double scale_;
  const bool add_;
};

class DoubleHeadProducts final : public Plan {
 public:
  DoubleHeadProducts(const Signature& s, const Cost& cost, HeadProducts steps)
      : Plan(s, {2 * cost.flops, 2 * cost.bytes}), steps_(std::move(steps)) {
    size_t bytes = 0;
    for (const HeadProducts::Product& p : steps_.products) {
      gemms_.emplace_back(p.z.rows, p.z.columns, p.x.columns, p.z.count, threads());
      bytes = std::max(bytes, gemms_.back().scratch_bytes());
    }
    panels_ = add_thread_scratch(bytes);
  }

 private:
  void execute(const Call& call) const override {
    for (size_t i = 0; i < gemms_.size(); ++i)
      if (call.wanted(static_cast<size_t>(steps_.products[i].out))) run(call, steps_.products[i], gemms_[i]);
    if (!steps_.zeros) return;
    const auto out = static_cast<size_t>(steps_.zeros->out);
    if (call.wanted(out) && !call.adds(out)) clear(*steps_.zeros, call.output<double>(out), sizeof(double));
  }

  void run(const Call& call, const HeadProducts::Product& p, const Gemm<double>& gemm) const {
    const auto out = static_cast<size_t>(p.out);
    const double* a = call.input<double>(static_cast<size_t>(p.a)) + p.x.offset;
    const double* b = call.input<double>(static_cast<size_t>(p.b)) + p.y.offset;
    double* to = call.output<double>(out) + p.z.offset;
    parallel_for(p.z.count * gemm.tasks(), 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / gemm.tasks();
        const StridedFactor<double> left(a + head * p.x.step, p.x.row, p.x.column);
        const StridedFactor<double> right(b + head * p.y.step, p.y.column, p.y.row);
        gemm.run(task % gemm.tasks(), left, right,
                 ScaledRows(to + head * p.z.step, p.z.row, p.scale, call.adds(out)), panels_.of<double>(call, thread));
      }
    });
  }

  const HeadProducts steps_;
  std::vector<Gemm<double>> gemms_;
  PerThread panels_;
};

}  // namespace

PlanPtr head_products(const Signature& s, const Cost& cost, HeadProducts steps) {
  if (all_double(s)) return std::make_unique<DoubleHeadProducts>(s, cost, std::move(steps));
  return primitives(s, cost, steps);
}

}  // namespace mx::cpu
