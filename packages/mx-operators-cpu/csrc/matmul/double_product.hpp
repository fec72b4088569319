// SPDX-License-Identifier: Apache-2.0
//
// `Product` in float64: with Gemm, as oneDNN has no products of doubles.
#pragma once

#include <type_traits>

#include "matmul/gemm.hpp"
#include "matmul/packed_matmul.hpp"

namespace mx::cpu {

class DoubleProduct {
 public:
  // Runs on as many threads as the calling thread's team has, at most.  The types of `shape` are not read; any number of
  // runs may go on at once.
  explicit DoubleProduct(const ProductShape& shape, int at_once = 1);

  size_t packed_bytes() const;
  size_t scratchpad_bytes() const;

  // What one thread needs to run it, with memory for the scratchpad.
  class Frame {
   public:
    Frame(const DoubleProduct& product, void* scratchpad)
        : product_(product), scratchpad_(static_cast<char*>(scratchpad)) {}
    // b as panels in `space`, packed_bytes().
    const void* pack(const void* b, void* space);
    void run(const void* a, const void* packed, void* c);

   private:
    const DoubleProduct& product_;
    char* const scratchpad_;
  };

 private:
  int64_t panels() const { return (n_ + width_ - 1) / width_; }
  // Of one thread.
  size_t thread_bytes() const { return aligned(gemm_.scratch_bytes()); }

  const int threads_;
  const int64_t m_, k_, n_;
  const int64_t a_strides_[2], b_strides_[2], c_stride_;
  const bool add_;
  const int64_t width_;  // of a panel
  const Gemm<double> gemm_;
};

// Of what tensors of T hold.
template <class T>
using ProductOf = std::conditional_t<std::is_same_v<T, double>, DoubleProduct, Product>;

}  // namespace mx::cpu
