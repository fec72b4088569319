// SPDX-License-Identifier: Apache-2.0
//
// What both directions of a recurrent stack share: scratch memory in sections, and products.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "product.h"
#include "rnn_layout.h"
#include "rnn_lengths.h"
#include "substitutes.h"

namespace mx::onednn {

// Sections of one block of scratch memory, in bytes.
class Sections {
 public:
  template <class T>
  size_t add(int64_t n) {
    return add_bytes(static_cast<size_t>(std::max<int64_t>(n, 0)) * sizeof(T));
  }
  size_t add_bytes(size_t bytes) {
    const size_t offset = total_;
    total_ += aligned(bytes);
    return offset;
  }
  size_t bytes() const { return total_; }

 private:
  size_t total_ = 0;
};

// What every run of a stack needs, to be passed about.
struct RnnRun {
  const Call& call;
  const Substitutes& out;
  const RnnLengths& lengths;
  dnnl::stream stream;
  char* scratch;

  template <class T>
  T* part(size_t offset) const {
    return reinterpret_cast<T*>(scratch + offset);
  }
  template <class T>
  T* written(size_t output) const {
    return call.wanted(output) ? static_cast<T*>(out.of(output)) : nullptr;
  }
};

// Whether tensors hold floats, else BFloat16; throws Unsupported where they differ.  `apart`: inputs that
// are float32 always.
inline bool all_float(const Signature& s, std::initializer_list<size_t> apart) {
  const DataType type = s.outputs[0].type;
  for (const Spec& spec : s.outputs)
    if (spec.type != type) throw Unsupported{};
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    const bool fixed = std::find(apart.begin(), apart.end(), i) != apart.end();
    if (s.inputs[i].type != (fixed ? DataType::f32 : type)) throw Unsupported{};
  }
  return type == DataType::f32;
}

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
