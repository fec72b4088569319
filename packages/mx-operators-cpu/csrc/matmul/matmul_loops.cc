// SPDX-License-Identifier: Apache-2.0
#include "matmul/matmul_loops.hpp"

#include <algorithm>
#include <string>

#include "common/float_types.hpp"
#include "common/shape.hpp"
#include "common/upcast.hpp"
#include "matmul/gemm.hpp"
#include "simd/loops.hpp"

namespace mx::cpu {
namespace {

// An argument of a plan as a batch of matrices, seen transposed or as it lies.
struct Operand {
  size_t index;
  int64_t rows, columns;  // as it lies
  bool transposed;

  Operand as_transposed() const { return {index, rows, columns, !transposed}; }
  int64_t height() const { return transposed ? columns : rows; }
  int64_t width() const { return transposed ? rows : columns; }
  int64_t row_step() const { return transposed ? 1 : columns; }
  int64_t column_step() const { return transposed ? columns : 1; }
  int64_t size() const { return rows * columns; }
};

// output = a b, of every matrix of a batch.
struct Product {
  size_t output;
  int64_t batch;
  Operand a, b;
  int bias = -1;  // the input that is added to every row

  int64_t m() const { return a.height(); }
  int64_t k() const { return a.width(); }
  int64_t n() const { return b.width(); }
};

double macs(const Product& p) {
  return static_cast<double>(p.batch) * static_cast<double>(p.m()) * static_cast<double>(p.k()) *
         static_cast<double>(p.n());
}

template <class T>
Cost cost_of(const Signature& s, const std::vector<Product>& products) {
  Cost cost = bandwidth_cost(s);
  for (const Product& p : products) cost.flops += 2 * macs(p) * (sizeof(T) / sizeof(float));
  return cost;
}

struct Sum {
  size_t input, output;  // (rows, columns) -> (columns): the sum of the rows
};

template <class T>
class ProductPlan final : public Plan {
 public:
  ProductPlan(Signature s, std::vector<Product> products, bool scaled = false, std::vector<Sum> sums = {})
      : Plan(s, cost_of<T>(s, products)), products_(std::move(products)), sums_(std::move(sums)), scaled_(scaled) {
    size_t bytes = 0;
    for (const Product& p : products_) {
      gemms_.emplace_back(p.m(), p.n(), p.k(), p.batch, threads());
      bytes = std::max(bytes, gemms_.back().scratch_bytes());
    }
    panels_ = add_thread_scratch(bytes);
  }

 private:
  void execute(const Call& call) const override {
    for (size_t i = 0; i < products_.size(); ++i)
      if (call.wanted(products_[i].output)) multiply(call, products_[i], gemms_[i]);
    for (const Sum& sum : sums_)
      if (call.wanted(sum.output)) add_rows(call, sum);
    if (scaled_ && call.wanted(0)) scale(call);
  }
  bool stages(size_t, const uint8_t* req) const override { return scaled_ && req[0] == MX_REQ_ADD; }

  void multiply(const Call& call, const Product& p, const Gemm<T>& gemm) const {
    const T *a = call.input<T>(p.a.index), *b = call.input<T>(p.b.index);
    T* c = call.target<T>(p.output);
    const bool add = call.adds(p.output) && !scaled_;
    const T* bias = p.bias < 0 ? nullptr : call.input<T>(static_cast<size_t>(p.bias));
    parallel_for(p.batch * gemm.tasks(), 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task / gemm.tasks();
        gemm.run(task % gemm.tasks(), StridedFactor<T>(a + i * p.a.size(), p.a.row_step(), p.a.column_step()),
                 StridedFactor<T>(b + i * p.b.size(), p.b.column_step(), p.b.row_step()),
                 Rows<T>(c + i * p.m() * p.n(), p.n(), add, nullptr, bias), panels_.of<T>(call, thread));
      }
    });
  }

  // result = alpha * result + beta * addend
  void scale(const Call& call) const {
    const bool plus = inputs_.size() == 3;
    if (call.context.n_scalars != (plus ? 2u : 1u))
      refuse(MX_ERROR_VALUE, "expected " + std::to_string(plus ? 2 : 1) + " run-time scalars, got " +
                                 std::to_string(call.context.n_scalars));
    const T alpha = static_cast<T>(call.scalar(0)), beta = plus ? static_cast<T>(call.scalar(1)) : T(0);
    const T* addend = plus ? call.input<T>(2) : nullptr;
    T* y = call.target<T>(0);
    parallel_shares(outputs_[0].size(), [&](int64_t begin, int64_t end) {
      if (plus)
        for (int64_t i = begin; i < end; ++i) y[i] = alpha * y[i] + beta * addend[i];
      else
        for (int64_t i = begin; i < end; ++i) y[i] *= alpha;
    });
  }

  void add_rows(const Call& call, const Sum& sum) const {
    const T* x = call.input<T>(sum.input);
    T* y = call.output<T>(sum.output);
    const int64_t columns = outputs_[sum.output].size(), rows = inputs_[sum.input].size() / columns;
    constexpr int64_t kColumns = 64;
    const Fold fold = loops().fold_columns[ComputeOf<T>::code][kSum];
    parallel_for((columns + kColumns - 1) / kColumns, 4, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kColumns, n = std::min(end * kColumns, columns) - first;
      if (!call.adds(sum.output)) std::fill_n(y + first, n, T(0));
      for (int64_t r = 0; r < rows; ++r) fold(y + first, x + r * columns + first, static_cast<size_t>(n));
    });
  }

  const std::vector<Product> products_;
  const std::vector<Sum> sums_;
  const bool scaled_;
  std::vector<Gemm<T>> gemms_;  // of each product
  PerThread panels_;
};

// The operands as they lie in memory.
Operand left(const MatmulOptions& o, size_t input) {
  return {input, o.transpose_a ? o.k : o.m, o.transpose_a ? o.m : o.k, o.transpose_a};
}
Operand right(const MatmulOptions& o, size_t input) {
  return {input, o.transpose_b ? o.n : o.k, o.transpose_b ? o.k : o.n, o.transpose_b};
}

// The elements of a batch of matrices; -1 where they cannot be counted.
int64_t elements(int64_t batch, int64_t rows, int64_t columns) {
  int64_t size;
  if (batch < 0 || rows < 0 || columns < 0 || __builtin_mul_overflow(batch, rows, &size) ||
      __builtin_mul_overflow(size, columns, &size))
    return -1;
  return size;
}

bool agree(const MatmulOptions& o, const Spec& a, const Spec& b, const Spec& c) {
  return a.size() == elements(o.batch, o.m, o.k) && b.size() == elements(o.batch, o.k, o.n) &&
         c.size() == elements(o.batch, o.m, o.n);
}

}  // namespace

PlanPtr make_product_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const MatmulOptions& o) {
  const Signature s{std::move(inputs), std::move(outputs)};
  fits(s.inputs.size() == 2 && s.outputs.size() == 1 && agree(o, s.inputs[0], s.inputs[1], s.outputs[0]), "product");
  const int dtype = s.outputs[0].dtype;
  if (s.inputs[0].dtype != dtype || s.inputs[1].dtype != dtype || (dtype != MX_FLOAT32 && dtype != MX_FLOAT64))
    throw Error(MX_ERROR_UNSUPPORTED, "[product] expected float32 or float64 alone");
  std::vector<Product> products = {{0, o.batch, left(o, 0), right(o, 1)}};
  if (dtype == MX_FLOAT64) return std::make_unique<ProductPlan<double>>(s, std::move(products));
  return std::make_unique<ProductPlan<float>>(s, std::move(products));
}

PlanPtr double_matmul(const Signature& s, const MatmulOptions& o) {
  require_double(s);
  if (!agree(o, s.inputs[0], s.inputs[1], s.outputs[0]) || (s.inputs.size() == 3 && !o.scaled)) throw Unsupported{};
  if (s.inputs.size() == 3) require_size(s.inputs[2], s.outputs[0].size());
  return std::make_unique<ProductPlan<double>>(s, std::vector<Product>{{0, o.batch, left(o, 0), right(o, 1)}}, o.scaled);
}

PlanPtr double_dot_backward(const Signature& s, const MatmulOptions& o) {
  require_double(s);
  if (!agree(o, s.inputs[1], s.inputs[2], s.inputs[0])) throw Unsupported{};
  require_sizes(s.outputs, {s.inputs[1].size(), s.inputs[2].size()});
  const Operand head = {0, o.m, o.n, false}, a = left(o, 1), b = right(o, 2);
  std::vector<Product> products;
  products.push_back(o.transpose_a ? Product{0, o.batch, b, head.as_transposed()}
                                   : Product{0, o.batch, head, b.as_transposed()});
  products.push_back(o.transpose_b ? Product{1, o.batch, head.as_transposed(), a}
                                   : Product{1, o.batch, a.as_transposed(), head});
  return std::make_unique<ProductPlan<double>>(s, std::move(products));
}

PlanPtr double_fully_connected(const Signature& s) {
  require_double(s);
  const int64_t depth = extent(s.inputs[1].shape, 1), hidden = extent(s.inputs[1].shape, 0);
  if (depth < 1) throw Unsupported{};
  const int64_t rows = s.inputs[0].size() / depth;
  require_size(s.inputs[0], elements(1, rows, depth));
  require_size(s.inputs[1], elements(1, hidden, depth));
  require_size(s.outputs[0], elements(1, rows, hidden));
  if (s.inputs.size() == 3) require_size(s.inputs[2], hidden);
  Product product = {0, 1, {0, rows, depth, false}, {1, hidden, depth, true}};
  if (s.inputs.size() == 3) product.bias = 2;
  return std::make_unique<ProductPlan<double>>(s, std::vector<Product>{product});
}

PlanPtr double_fully_connected_backward(const Signature& s) {
  require_double(s);
  const int64_t depth = extent(s.inputs[2].shape, 1), hidden = extent(s.inputs[2].shape, 0);
  if (depth < 1) throw Unsupported{};
  const int64_t rows = s.inputs[1].size() / depth;
  require_sizes(s.inputs, {elements(1, rows, hidden), elements(1, rows, depth), elements(1, hidden, depth)});
  require_size(s.outputs[0], s.inputs[1].size());
  require_size(s.outputs[1], s.inputs[2].size());
  std::vector<Sum> sums;
  if (s.outputs.size() == 3) {
    require_size(s.outputs[2], hidden);
    sums.push_back({0, 2});
  }
  const Operand head = {0, rows, hidden, false};
  return std::make_unique<ProductPlan<double>>(
      s, std::vector<Product>{{0, 1, head, {2, hidden, depth, false}}, {1, 1, head.as_transposed(), {1, rows, depth, false}}},
      false, std::move(sums));
}

}  // namespace mx::cpu
