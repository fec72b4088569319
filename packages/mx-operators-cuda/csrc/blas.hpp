// SPDX-License-Identifier: Apache-2.0
//
// Matrix products by cuBLAS, which is found at run time like the driver.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "gpu.hpp"
#include "mx_core/storage.h"
#include "parameter.hpp"

namespace mx::cuda {

// C = op(A) op(B), or C += it; row-major, `batch` of them at strides of so many elements.
struct Product {
  Parameter a, b, c;  // an input, output or scratch each
  int32_t dtype;      // mx_dtype: float32, float64, float16 or bfloat16
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  int64_t row_a, row_b, row_c;  // elements from one row in memory to the next
  int64_t stride_a, stride_b, stride_c;
  int64_t batch;
  bool add;  // whatever is requested of the output; without, C is added to when that is requested
};

// Loads cuBLAS from a file, once per process.  Throws mx::Error.
void load_blas(const std::string& path);
// Throws mx::Error when cuBLAS is not loaded or has no such product.
void check_product(const Product& product);
// Where cuBLAS's workspaces come from.  The memory of a stream is taken at its first product and kept; while a step is
// captured each product takes some and gives it back, which is the step's as long as its graph may run.
struct Workspaces {
  const mx_storage_api* storage;  // stays as long as the process
  bool captured;
};

// Enqueues a product.  The GPU's context is current.  Throws mx::Error, also when there is no memory for a workspace.
void multiply(const Gpu& gpu, Stream stream, const Product& product, const void* a, const void* b, void* c, bool add,
              const Workspaces& workspaces, const std::string& where);

}  // namespace mx::cuda
