// SPDX-License-Identifier: Apache-2.0
//
// What both directions of a recurrent stack share: what a run needs, and where teams pay.
#pragma once

#include "matmul/double_product.hpp"
#include "rnn/rnn_layout.hpp"
#include "rnn/rnn_lengths.hpp"
#include "common/elements.hpp"
#include "common/float_types.hpp"

namespace mx::cpu {

// What tensors hold is what loops compute with.
template <class T>
constexpr bool kExact = std::is_same_v<T, Wide<T>>;
// Of the products of tensors; doubles have none of oneDNN's.
template <class T>
constexpr DataType kProductType = kExact<T> ? DataType::f32 : DataType::bf16;

// What every run of a stack needs, to be passed about.
struct RnnRun {
  const Call& call;
  const RnnLengths& lengths;
  char* scratch;

  template <class T>
  T* part(size_t offset) const {
    return reinterpret_cast<T*>(scratch + offset);
  }
  template <class T>
  T* written(size_t output) const {
    return call.wanted(output) ? call.target<T>(output) : nullptr;
  }
};

// Teams pay where a step has this many units in all.
constexpr int64_t kParallelUnits = 8192;

template <class Body>
void over_batch(const RnnLayout& layout, const Body& body) {
  if (layout.state() < kParallelUnits) {
    body(int64_t{0}, layout.batch);
  } else {
    parallel_shares(layout.batch, body);
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
  return cost.parallel() ? team_size() : 1;
}

}  // namespace mx::cpu
