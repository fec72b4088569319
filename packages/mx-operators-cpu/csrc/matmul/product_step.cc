// SPDX-License-Identifier: Apache-2.0
#include "matmul/product_step.hpp"

#include <optional>

#include "matmul/float_product.hpp"

namespace mx::cpu {
namespace {

// Of float32, in order; else nothing.
std::optional<Matrices> matrices(const MemoryDesc& desc) {
  const Dims dims = desc.get_dims();
  if (desc.get_data_type() != DataType::f32 || desc.get_format_kind() != dnnl::memory::format_kind::blocked ||
      desc.get_inner_nblks() > 0 || dims.size() < 2 || dims.size() > 3)
    return {};
  const Dims strides = desc.get_strides();
  const size_t row = dims.size() - 2, column = row + 1;
  const int64_t batch = row == 0 ? 1 : dims[0];
  return Matrices{batch, dims[row], dims[column], strides[row], strides[column], batch == 1 ? 0 : strides[0]};
}

}  // namespace

void add_product(ProgramBuilder& builder, Slot a, Slot b, Slot c, Slot bias, OutputMask mask) {
  const MemoryDesc x = builder.desc(a), y = builder.desc(b), z = builder.desc(c);
  const auto left = matrices(x), right = matrices(y), made = matrices(z);
  if (left && right && made) {
    const FloatProduct product(*left, *right, *made);
    if (product.suits()) {
      std::vector<Slot> slots = {a, b, c};
      if (bias >= 0) slots.push_back(bias);
      return builder.host(
          [=](void* const* memory, const Call&) {
            product.run(static_cast<const float*>(memory[a]), static_cast<const float*>(memory[b]),
                        static_cast<float*>(memory[c]), bias < 0 ? nullptr : static_cast<const float*>(memory[bias]));
          },
          std::move(slots), mask);
    }
  }
  ProgramBuilder::Arguments arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
  if (bias >= 0) arguments.emplace_back(DNNL_ARG_BIAS, bias);
  const MemoryDesc row = bias < 0 ? MemoryDesc() : builder.desc(bias);
  builder.step(dnnl::matmul::primitive_desc(describing_engine(), x, y, row, z, ProgramBuilder::attributes()),
               std::move(arguments), mask);
}

}  // namespace mx::cpu
