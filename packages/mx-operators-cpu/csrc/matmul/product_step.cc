// SPDX-License-Identifier: Apache-2.0
#include "matmul/product_step.hpp"

#include <algorithm>

namespace mx::cpu {
namespace {

// Up to this many multiplications a primitive takes longer to make than its run will ever save.
constexpr int64_t kSmall = 1 << 15;

// Processors below AVX-512 have no kernels but those that dnnl_sgemm calls, too, without a primitive for each shape;
// a single row is multiplied faster by the primitive.
bool primitives_are_faster() {
  constexpr int kAvx512Core = dnnl_cpu_isa_avx512_core & ~dnnl_cpu_isa_avx2;
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & kAvx512Core) == kAvx512Core;
}

// A batch of matrices as BLAS names it.
struct Matrices {
  int64_t batch, rows, columns;
  char order = 'N';      // 'T': columns are contiguous
  int64_t line = 0;      // elements between two rows, or columns
  int64_t step = 0;      // between two matrices
  bool regular = false;  // rows or columns are contiguous

  explicit Matrices(const MemoryDesc& desc) {
    const Dims dims = desc.get_dims(), strides = desc.get_strides();
    const size_t row = dims.size() - 2, column = row + 1;
    batch = row == 0 ? 1 : dims[0], rows = dims[row], columns = dims[column];
    step = batch == 1 ? 0 : strides[0];
    const bool by_rows = columns == 1 || strides[column] == 1, by_columns = rows == 1 || strides[row] == 1;
    regular = dims.size() <= 3 && (by_rows || by_columns);
    if (!by_rows) order = 'T';
    line = by_rows ? std::max(strides[row], columns) : std::max(strides[column], rows);
  }
  int64_t row_step() const { return order == 'N' ? line : 1; }
};

bool is_float(const MemoryDesc& desc) {
  return desc.get_data_type() == DataType::f32 && desc.get_format_kind() == dnnl::memory::format_kind::blocked &&
         desc.get_inner_nblks() == 0;
}

struct Product {
  Matrices a, b, c;
  Slot x, y, z, bias;

  bool suits() const {
    const double macs = static_cast<double>(c.batch) * static_cast<double>(c.rows) *
                        static_cast<double>(c.columns) * static_cast<double>(a.columns);
    return a.regular && b.regular && c.regular && c.order == 'N' && macs > 0 &&
           (macs <= static_cast<double>(kSmall) || (c.rows > 1 && !primitives_are_faster()));
  }

  void operator()(void* const* slots, const Call&) const {
    if (bias >= 0) spread(static_cast<const float*>(slots[bias]), static_cast<float*>(slots[z]));
    if (c.batch == 1) return multiply(slots, 0, 0, c.rows);
    parallel_shares(c.batch * c.rows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end;) {
        const int64_t matrix = row / c.rows, first = row % c.rows, n = std::min(c.rows - first, end - row);
        multiply(slots, matrix, first, n);
        row += n;
      }
    });
  }

  // Rows of one matrix.
  void multiply(void* const* slots, int64_t matrix, int64_t first, int64_t n) const {
    const float* left = static_cast<const float*>(slots[x]) + matrix * a.step + first * a.row_step();
    const float* right = static_cast<const float*>(slots[y]) + matrix * b.step;
    float* to = static_cast<float*>(slots[z]) + matrix * c.step + first * c.line;
    dnnl::error::wrap_c_api(dnnl_sgemm(a.order, b.order, n, c.columns, a.columns, 1, left, a.line, right, b.line,
                                       bias >= 0 ? 1.0f : 0.0f, to, c.line),
                            "a matrix product failed");
  }

  void spread(const float* row, float* to) const {
    parallel_shares(c.batch * c.rows, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        std::copy_n(row, c.columns, to + i / c.rows * c.step + i % c.rows * c.line);
    });
  }
};

}  // namespace

void add_product(ProgramBuilder& builder, Slot a, Slot b, Slot c, Slot bias, OutputMask mask) {
  const MemoryDesc x = builder.desc(a), y = builder.desc(b), z = builder.desc(c);
  const MemoryDesc row = bias < 0 ? MemoryDesc() : builder.desc(bias);
  if (is_float(x) && is_float(y) && is_float(z)) {
    const Product product = {Matrices(x), Matrices(y), Matrices(z), a, b, c, bias};
    if (product.suits()) {
      std::vector<Slot> slots = {a, b, c};
      if (bias >= 0) slots.push_back(bias);
      return builder.host(product, std::move(slots), mask);
    }
  }
  ProgramBuilder::Arguments arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
  if (bias >= 0) arguments.emplace_back(DNNL_ARG_BIAS, bias);
  builder.step(dnnl::matmul::primitive_desc(cpu_engine(), x, y, row, z, ProgramBuilder::attributes()),
               std::move(arguments), mask);
}

}  // namespace mx::cpu
