// SPDX-License-Identifier: Apache-2.0
#include "matmul/packed_matmul.hpp"

#include "onednn/engine.hpp"

namespace mx::cpu {
namespace {

dnnl::matmul::primitive_desc describe(const ProductShape& s, const MemoryDesc& b) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.add) {
    dnnl::post_ops sum;
    sum.append_sum();
    attributes.set_post_ops(sum);
  }
  return {describing_engine(), MemoryDesc({s.m, s.k}, s.type, s.a_strides), s.repack ? any_layout(b) : b,
          MemoryDesc({s.m, s.n}, s.result, Dims{s.c_stride, 1}), attributes};
}

void place(dnnl::memory& memory, const void* data) {
  dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)),
                          "cannot bind an operand");
}

}  // namespace

Product::Product(const ProductShape& s, int at_once)
    : plain_({s.k, s.n}, s.type, s.b_strides), matmul_(describe(s, plain_)), packed_(matmul_.weights_desc()),
      run_(matmul_) {
  if (packed_ != plain_)
    pack_ = dnnl::reorder(dnnl::reorder::primitive_desc(describing_engine(), plain_, cpu_engine(), packed_));
  const auto handle = [](const MemoryDesc& desc) { return dnnl::memory(desc, cpu_engine(), DNNL_MEMORY_NONE); };
  const auto make = [handle, matmul = matmul_, plain = plain_, packed = packed_] {
    return Operands{dnnl::stream(cpu_engine()), handle(matmul.src_desc()), handle(packed), handle(matmul.dst_desc()),
                    handle(matmul.scratchpad_desc()), handle(plain), handle(packed)};
  };
  operands_ = std::make_unique<FramePool<Operands>>(make, at_once);
}

Product::Frame::Frame(const Product& product, void* scratchpad)
    : product_(product), operands_(product.operands_->take()) {
  place(operands_->scratchpad, scratchpad);
}

const void* Product::Frame::pack(const void* b, void* space) {
  if (!product_.pack_) return b;
  place(operands_->plain, b);
  place(operands_->packed, space);
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, operands_->plain.get()},
                                       {DNNL_ARG_TO, operands_->packed.get()}};
  dnnl::error::wrap_c_api(dnnl_primitive_execute(product_.pack_.get(), operands_->stream.get(), 2, arguments),
                          "a reorder failed");
  return space;
}

void Product::Frame::run(const void* a, const void* packed, void* c) {
  place(operands_->a, a);
  place(operands_->b, packed);
  place(operands_->c, c);
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, operands_->a.get()},
                                       {DNNL_ARG_WEIGHTS, operands_->b.get()},
                                       {DNNL_ARG_DST, operands_->c.get()},
                                       {DNNL_ARG_SCRATCHPAD, operands_->scratchpad.get()}};
  dnnl::error::wrap_c_api(dnnl_primitive_execute(product_.run_.get(), operands_->stream.get(), 4, arguments),
                          "a product failed");
}

}  // namespace mx::cpu
