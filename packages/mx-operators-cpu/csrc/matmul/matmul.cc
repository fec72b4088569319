// SPDX-License-Identifier: Apache-2.0
//
// Matrix products and the gradients of dot.
#include <algorithm>
#include <string>

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
};

// Up to this many multiplications loops are done before oneDNN has begun.
constexpr int64_t kTiny = 512;

// c = a * b in loops, float32.
HostStep tiny_product(Slot a, const Operand& left, Slot b, const Operand& right, Slot c, const Matrix& result) {
  const Matrix& x = left.matrix;
  const Matrix& y = right.matrix;
  const int64_t depth = left.transposed ? x.rows : x.columns;
  const int64_t x_row = left.transposed ? 1 : x.columns, x_column = left.transposed ? x.columns : 1;
  const int64_t y_row = right.transposed ? 1 : y.columns, y_column = right.transposed ? y.columns : 1;
  const int64_t x_step = x.rows * x.columns, y_step = y.rows * y.columns;
  return [=](void* const* slots, const Call&) {
    const auto* p = static_cast<const float*>(slots[a]);
    const auto* q = static_cast<const float*>(slots[b]);
    auto* out = static_cast<float*>(slots[c]);
    for (int64_t batch = 0; batch < result.batch; ++batch, p += x_step, q += y_step) {
      for (int64_t i = 0; i < result.rows; ++i, out += result.columns) {
        std::fill_n(out, result.columns, 0.0f);
        for (int64_t k = 0; k < depth; ++k) {
          const float factor = p[i * x_row + k * x_column];
          const float* row = q + k * y_row;
          for (int64_t j = 0; j < result.columns; ++j) out[j] += factor * row[j * y_column];
        }
      }
    }
  };
}

// output = a * b
Slot product(ProgramBuilder& builder, const Operand& a, const Operand& b, int output, const Matrix& c) {
  const MemoryDesc x = a.matrix.desc(a.transposed), y = b.matrix.desc(b.transposed), z = c.desc(false);
  const Slot slot = builder.output(output, z);
  const int64_t depth = a.transposed ? a.matrix.rows : a.matrix.columns;
  if (c.type == DataType::f32 && c.batch * c.rows * c.columns * depth <= kTiny) {
    const Slot left = builder.input(a.input, x), right = builder.input(b.input, y);
    builder.host(tiny_product(left, a, right, b, slot, c), {left, right, slot}, needed_by(output));
    return slot;
  }
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
  ProgramBuilder builder(signature, cost(o, 1));
  const Matrix c = {o.batch, o.m, o.n, type};
  const Slot result = product(builder, left(o, 0, type), right(o, 1, type), 0, c);
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
