// SPDX-License-Identifier: Apache-2.0
//
// One matrix product that a kernel runs many times, with strided operands, the second of which is
// brought once into the layout the product likes best.  Sums are float32.
#pragma once

#include <cstdint>
#include <memory>

#include "onednn/frame_pool.hpp"
#include "onednn/memory_desc.hpp"

namespace mx::cpu {

// c (m, n) = a (m, k) * b (k, n), or c += that; strides in elements.
struct ProductShape {
  int64_t m, k, n;
  Dims a_strides, b_strides;
  int64_t c_stride;  // of rows
  bool add = false;
  DataType type = DataType::f32;    // of a and b
  DataType result = DataType::f32;  // of c
  bool repack = true;               // b may be brought into another layout
};

class Product {
 public:
  // `at_once`: runs of it that are prepared to go on at the same time.
  explicit Product(const ProductShape& shape, int at_once = 1);

  const MemoryDesc& packed() const { return packed_; }
  size_t packed_bytes() const { return packed_.get_size(); }
  size_t scratchpad_bytes() const { return matmul_.scratchpad_desc().get_size(); }

 private:
  // Handles of the operands of the product, and of the reorder of b.
  struct Operands {
    dnnl::stream stream;
    dnnl::memory a, b, c, scratchpad, plain, packed;
  };

 public:
  // What one thread needs to run it, with memory for the scratchpad.
  class Frame {
   public:
    Frame(const Product& product, void* scratchpad);
    // b in the layout the product reads: itself, or `space` of packed_bytes().
    const void* pack(const void* b, void* space);
    void run(const void* a, const void* packed, void* c);

   private:
    const Product& product_;
    const FramePool<Operands>::Lease operands_;
  };

 private:
  MemoryDesc plain_;   // b as it lies
  dnnl::matmul::primitive_desc matmul_;
  MemoryDesc packed_;  // b as the product reads it
  dnnl::matmul run_;
  dnnl::reorder pack_;
  std::unique_ptr<FramePool<Operands>> operands_;
};

}  // namespace mx::cpu
