// SPDX-License-Identifier: Apache-2.0
#include "matmul/packed_matmul.h"

#include "onednn/runtime.h"

namespace mx::onednn {
namespace {

dnnl::matmul::primitive_desc describe(const ProductShape& s, const MemoryDesc& b) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.add) {
    dnnl::post_ops sum;
    sum.append_sum();
    attributes.set_post_ops(sum);
  }
  return {cpu_engine(), MemoryDesc({s.m, s.k}, s.type, s.a_strides), s.repack ? any_layout(b) : b,
          MemoryDesc({s.m, s.n}, s.result, Dims{s.c_stride, 1}), attributes};
}

void place(dnnl::memory& memory, const void* data) {
  dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)),
                          "cannot bind an operand");
}

}  // namespace

Product::Product(const ProductShape& s)
    : plain_({s.k, s.n}, s.type, s.b_strides), matmul_(describe(s, plain_)), packed_(matmul_.weights_desc()),
      run_(matmul_) {
  if (packed_ != plain_)
    pack_ = dnnl::reorder(dnnl::reorder::primitive_desc(cpu_engine(), plain_, cpu_engine(), packed_));
}

Product::Frame::Frame(const Product& product, dnnl::stream& stream, void* scratchpad)
    : product_(product), stream_(stream), a_(product.matmul_.src_desc(), cpu_engine(), DNNL_MEMORY_NONE),
      b_(product.packed_, cpu_engine(), DNNL_MEMORY_NONE),
      c_(product.matmul_.dst_desc(), cpu_engine(), DNNL_MEMORY_NONE),
      scratchpad_(product.matmul_.scratchpad_desc(), cpu_engine(), scratchpad),
      arguments_{{DNNL_ARG_SRC, a_.get()}, {DNNL_ARG_WEIGHTS, b_.get()}, {DNNL_ARG_DST, c_.get()},
                 {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}} {}

const void* Product::Frame::pack(const void* b, void* space) {
  if (!product_.pack_) return b;
  dnnl::memory from(product_.plain_, cpu_engine(), const_cast<void*>(b)), to(product_.packed_, cpu_engine(), space);
  dnnl::reorder(product_.pack_).execute(stream_, from, to);
  return space;
}

void Product::Frame::run(const void* a, const void* packed, void* c) {
  place(a_, a);
  place(b_, packed);
  place(c_, c);
  dnnl::error::wrap_c_api(dnnl_primitive_execute(product_.run_.get(), stream_.get(), 4, arguments_),
                          "a product failed");
}

}  // namespace mx::onednn
