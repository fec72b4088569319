// SPDX-License-Identifier: Apache-2.0
//
// What both directions of a recurrent stack share: scratch memory in sections, and products.
#pragma once

#include <memory>

#include "product.h"
#include "rnn_layout.h"
#include "substitutes.h"

namespace mx::onednn {

// Sections of one block of scratch memory, in floats.
class Sections {
 public:
  size_t add(int64_t floats) { return add_bytes(static_cast<size_t>(std::max<int64_t>(floats, 0)) * sizeof(float)); }
  size_t add_bytes(size_t bytes) {
    const size_t offset = total_;
    total_ += aligned(bytes) / sizeof(float);
    return offset;
  }
  size_t bytes() const { return total_ * sizeof(float); }

 private:
  size_t total_ = 0;
};

// Teams pay where a step has this many units in all.
constexpr int64_t kParallelUnits = 8192;

template <class Body>
void over_batch(const RnnLayout& layout, const Body& body) {
  if (layout.state() < kParallelUnits) {
    body(int64_t{0}, layout.batch);
  } else {
    parallel_for(layout.batch, body);
  }
}

inline Cost rnn_cost(const RnnLayout& l, double products) {
  double weights = 0;
  for (int64_t layer = 0; layer < l.layers; ++layer)
    weights += static_cast<double>(l.directions * l.rows() * (l.width(layer) + l.units));
  return {products * 2 * weights * static_cast<double>(l.steps * l.batch), 4 * weights};
}

// 1 where no team would pay for a product of that size, else the team's size.
inline int step_threads(const RnnLayout& l) {
  const Cost cost = {2.0 * static_cast<double>(l.state() * l.rows()), 0};
  return cost.parallel() ? omp_get_max_threads() : 1;
}

}  // namespace mx::onednn
