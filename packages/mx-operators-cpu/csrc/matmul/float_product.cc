// SPDX-License-Identifier: Apache-2.0
#include "matmul/float_product.hpp"

#include <algorithm>

#include "common/parallel.hpp"
#include "oneapi/dnnl/dnnl.hpp"

namespace mx::cpu {
namespace {

constexpr double kTiny = 512;       // multiplications: loops have done them before oneDNN has begun
constexpr double kSmall = 1 << 15;  // a primitive takes longer to make than its run will ever save

// Processors below AVX-512 have no kernels but those that dnnl_sgemm calls, too, without a primitive for each shape;
// a single row is multiplied faster by the primitive.
bool primitives_are_faster() {
  constexpr int kAvx512Core = dnnl_cpu_isa_avx512_core & ~dnnl_cpu_isa_avx2;
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & kAvx512Core) == kAvx512Core;
}

class FloatProductPlan final : public Plan {
 public:
  FloatProductPlan(const Signature& signature, const Cost& cost, const FloatProduct& product)
      : Plan(signature, cost), product_(product) {}

 private:
  bool stages(size_t i, const uint8_t* req) const override { return req[i] == MX_REQ_ADD; }
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const float* bias = inputs_.size() == 3 ? call.input<float>(2) : nullptr;
    product_.run(call.input<float>(0), call.input<float>(1), call.target<float>(0), bias);
  }

  const FloatProduct product_;
};

}  // namespace

FloatProduct::Operand::Operand(const Matrices& matrices) : Matrices(matrices) {
  const bool by_rows = columns == 1 || column_step == 1, by_columns = rows == 1 || row_step == 1;
  regular = by_rows || by_columns;
  if (!by_rows) order = 'T';
  line = by_rows ? std::max(row_step, columns) : std::max(column_step, rows);
}

FloatProduct::FloatProduct(const Matrices& a, const Matrices& b, const Matrices& c) : a_(a), b_(b), c_(c) {}

double FloatProduct::macs() const {
  return static_cast<double>(c_.batch) * static_cast<double>(c_.rows) * static_cast<double>(c_.columns) *
         static_cast<double>(a_.columns);
}

bool FloatProduct::suits() const {
  const double macs = this->macs();
  return a_.regular && b_.regular && c_.regular && c_.order == 'N' && macs > 0 &&
         (macs <= kSmall || (c_.rows > 1 && !primitives_are_faster()));
}

void FloatProduct::run(const float* a, const float* b, float* c, const float* bias) const {
  if (macs() <= kTiny) return loop(a, b, c, bias);
  if (bias != nullptr) spread(bias, c);
  if (c_.batch == 1) return multiply(a, b, c, bias != nullptr, 0, 0, c_.rows);
  parallel_shares(c_.batch * c_.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const int64_t matrix = row / c_.rows, first = row % c_.rows, n = std::min(c_.rows - first, end - row);
      multiply(a, b, c, bias != nullptr, matrix, first, n);
      row += n;
    }
  });
}

void FloatProduct::loop(const float* a, const float* b, float* c, const float* bias) const {
  for (int64_t matrix = 0; matrix < c_.batch; ++matrix, a += a_.step, b += b_.step)
    for (int64_t i = 0; i < c_.rows; ++i) {
      float* to = c + matrix * c_.step + i * c_.line;
      if (bias != nullptr) std::copy_n(bias, c_.columns, to);
      else std::fill_n(to, c_.columns, 0.0f);
      for (int64_t k = 0; k < a_.columns; ++k) {
        const float factor = a[i * a_.row_step + k * a_.column_step];
        const float* row = b + k * b_.row_step;
        for (int64_t j = 0; j < c_.columns; ++j) to[j] += factor * row[j * b_.column_step];
      }
    }
}

// Rows of one matrix.
void FloatProduct::multiply(const float* a, const float* b, float* c, bool add, int64_t matrix, int64_t first,
                            int64_t n) const {
  const float* left = a + matrix * a_.step + first * (a_.order == 'N' ? a_.line : 1);
  dnnl::error::wrap_c_api(
      dnnl_sgemm(a_.order, b_.order, n, c_.columns, a_.columns, 1, left, a_.line, b + matrix * b_.step, b_.line,
                 add ? 1.0f : 0.0f, c + matrix * c_.step + first * c_.line, c_.line),
      "a matrix product failed");
}

void FloatProduct::spread(const float* row, float* c) const {
  parallel_shares(c_.batch * c_.rows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::copy_n(row, c_.columns, c + i / c_.rows * c_.step + i % c_.rows * c_.line);
  });
}

PlanPtr float_product_plan(const Signature& signature, const Cost& cost, const FloatProduct& product) {
  const auto size = [](const Matrices& m) { return m.batch * m.rows * m.columns; };
  require_counts(signature, 2, 3, 1, 1);
  require_size(signature.inputs[0], size(product.a_));
  require_size(signature.inputs[1], size(product.b_));
  if (signature.inputs.size() == 3) require_size(signature.inputs[2], product.c_.columns);
  require_size(signature.outputs[0], size(product.c_));
  return std::make_unique<FloatProductPlan>(signature, cost, product);
}

}  // namespace mx::cpu
