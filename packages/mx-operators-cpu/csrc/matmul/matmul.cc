// SPDX-License-Identifier: Apache-2.0
//
// Matrix products and the gradients of dot.
#include <string>

#include "common/float_types.hpp"
#include "matmul/float_product.hpp"
#include "matmul/matmul.hpp"
#include "matmul/matmul_loops.hpp"
#include "matmul/product_step.hpp"
#include "onednn/primitive_program.hpp"

namespace mx::cpu {
namespace {

// Matrices of `rows` x `columns` in row-major memory.
struct Matrix {
  int64_t batch, rows, columns;
  DataType type;

  MemoryDesc desc(bool transposed) const {
    if (batch == 1) {
      return transposed ? MemoryDesc(Dims{columns, rows}, type, Dims{1, columns})
                        : MemoryDesc(Dims{rows, columns}, type, Dims{columns, 1});
    }
    const int64_t step = rows * columns;
    return transposed ? MemoryDesc(Dims{batch, columns, rows}, type, Dims{step, 1, columns})
                      : MemoryDesc(Dims{batch, rows, columns}, type, Dims{step, columns, 1});
  }
};

struct Operand {
  int input;
  Matrix matrix;
  bool transposed;
  Operand as_transposed() const { return {input, matrix, !transposed}; }
  Matrices matrices() const {
    const auto& [batch, rows, columns, type] = matrix;
    return transposed ? by_columns(batch, columns, rows) : by_rows(batch, rows, columns);
  }
};

// output = a * b
Slot product(ProgramBuilder& builder, const Operand& a, const Operand& b, int output, const Matrix& c) {
  const MemoryDesc x = a.matrix.desc(a.transposed), y = b.matrix.desc(b.transposed);
  const Slot slot = builder.output(output, c.desc(false));
  add_product(builder, builder.input(a.input, x), builder.input(b.input, y), slot, -1, needed_by(output));
  return slot;
}

// The operands of options as they lie in memory.
Operand left(const MatmulOptions& o, int input, DataType type) {
  const auto [rows, columns] = o.transpose_a ? std::pair(o.k, o.m) : std::pair(o.m, o.k);
  return {input, {o.batch, rows, columns, type}, o.transpose_a};
}

Operand right(const MatmulOptions& o, int input, DataType type) {
  const auto [rows, columns] = o.transpose_b ? std::pair(o.n, o.k) : std::pair(o.k, o.n);
  return {input, {o.batch, rows, columns, type}, o.transpose_b};
}

Cost cost(const MatmulOptions& o, double products) {
  const auto b = static_cast<double>(o.batch), m = static_cast<double>(o.m), k = static_cast<double>(o.k),
             n = static_cast<double>(o.n);
  return {products * 2 * b * m * k * n, 4 * b * (m * k + k * n + m * n)};
}

// result = alpha * result + beta * addend, with alpha and beta from the run-time scalars.
template <class T>
HostStep scale(Slot result, Slot addend, int64_t size) {
  return [=](void* const* slots, const Call& call) {
    const uint32_t expected = addend < 0 ? 1 : 2;
    if (call.context.n_scalars != expected) {
      throw Error(MX_ERROR_VALUE, "expected " + std::to_string(expected) + " run-time scalars, got " +
                                      std::to_string(call.context.n_scalars));
    }
    const auto alpha = static_cast<float>(call.context.scalars[0]);
    auto* y = static_cast<T*>(slots[result]);
    if (addend >= 0) {
      const auto beta = static_cast<float>(call.context.scalars[1]);
      const auto* c = static_cast<const T*>(slots[addend]);
      parallel_shares(size, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) y[i] = T(alpha * float(y[i]) + beta * float(c[i]));
      });
    } else if (alpha != 1) {
      parallel_shares(size, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) y[i] = T(alpha * float(y[i]));
      });
    }
  };
}

}  // namespace

PlanPtr matmul(const Signature& signature, const MatmulOptions& o) {
  require_counts(signature, 2, 3, 1, 1);
  if (signature.outputs[0].dtype == MX_FLOAT64) return double_matmul(signature, o);
  const DataType type = data_type(signature.outputs[0]);
  const Operand a = left(o, 0, type), b = right(o, 1, type);
  const FloatProduct whole(a.matrices(), b.matrices(), by_rows(o.batch, o.m, o.n));
  if (all_float(signature, {}) && !o.scaled && whole.suits()) return float_product_plan(signature, cost(o, 1), whole);
  ProgramBuilder builder(signature, cost(o, 1));
  const Matrix c = {o.batch, o.m, o.n, type};
  const Slot result = product(builder, a, b, 0, c);
  if (o.scaled) {
    const bool plus = signature.inputs.size() == 3;
    const Slot addend = plus ? builder.input(2, c.desc(false)) : -1;
    const int64_t size = signature.outputs[0].size();
    builder.host(type == DataType::bf16 ? scale<BFloat16>(result, addend, size) : scale<float>(result, addend, size),
                 plus ? std::vector<Slot>{result, addend} : std::vector<Slot>{result}, needed_by(0));
  }
  return builder.build();
}

PlanPtr dot_backward(const Signature& signature, const MatmulOptions& o) {
  require_counts(signature, 3, 3, 2, 2);
  if (signature.inputs[0].dtype == MX_FLOAT64) return double_dot_backward(signature, o);
  const DataType type = data_type(signature.inputs[0]);
  ProgramBuilder builder(signature, cost(o, 2));
  const Operand head = {0, {o.batch, o.m, o.n, type}, false};
  const Operand a = left(o, 1, type), b = right(o, 2, type);
  if (o.transpose_a) {
    product(builder, b, head.as_transposed(), 0, a.matrix);
  } else {
    product(builder, head, b.as_transposed(), 0, a.matrix);
  }
  if (o.transpose_b) {
    product(builder, head.as_transposed(), a, 1, b.matrix);
  } else {
    product(builder, a.as_transposed(), head, 1, b.matrix);
  }
  return builder.build();
}

}  // namespace mx::cpu
