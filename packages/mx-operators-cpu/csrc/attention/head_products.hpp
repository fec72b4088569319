// SPDX-License-Identifier: Apache-2.0
//
// Products of the matrices of all heads, which lie strided in memory: oneDNN's, and in float64 ours.
#pragma once

#include <optional>
#include <vector>

#include "common/plan.hpp"

namespace mx::cpu {

// A matrix per head and sequence in an argument; steps in elements.
struct Matrices {
  int64_t count, rows, columns;
  int64_t step, row, column;  // from one matrix, row and column to the next
  int64_t offset = 0;
  Matrices transposed() const { return {count, columns, rows, step, column, row, offset}; }
};

struct HeadProducts {
  // out = scale * a * b; a, b and out are numbers of arguments.
  struct Product {
    int a;
    Matrices x;
    int b;
    Matrices y;
    int out;
    Matrices z;
    double scale;
  };
  // Parts [first, last) of `count` times `parts` parts of an output, which are zero.
  struct Zeros {
    int out;
    int64_t count, parts, size, first, last;
  };
  std::vector<Product> products;
  std::optional<Zeros> zeros;
};

// Throws Unsupported for types without products.
PlanPtr head_products(const Signature& signature, const Cost& cost, HeadProducts steps);

}  // namespace mx::cpu
