// SPDX-License-Identifier: Apache-2.0
#include "rnn/rnn_weights.hpp"

#include <cstring>

#include "rnn/rnn.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kChunkBytes = 4 << 20;  // of gates whose products are made at once

template <class T>
void sum_biases(const RnnLayout& l, bool apart, const T* b_w, const T* b_r, Wide<T>* sum) {
  const int64_t joined = apart ? 2 * l.units : l.rows();
  for (int64_t i = 0; i < l.rows(); ++i) sum[i] = i < joined ? get(b_w, i) + get(b_r, i) : get(b_w, i);
  for (int64_t i = 0; i < l.units; ++i) sum[l.rows() + i] = apart ? get(b_r, joined + i) : Wide<T>(0);
}

}  // namespace

template <class T>
RnnWeights<T>::RnnWeights(const RnnLayout& l, RnnMode mode, int threads)
    : layout_(l), apart_(mode == RnnMode::gru) {
  const auto element = static_cast<int64_t>(sizeof(Wide<T>));
  const int64_t fitting = std::max<int64_t>(kChunkBytes / (element * l.batch * l.rows()), 1);
  const int64_t chunks = (l.steps + fitting - 1) / fitting;
  chunk_ = (l.steps + chunks - 1) / chunks;
  const auto product = [&](int64_t rows, int64_t depth) {
    ProductShape shape = {rows, depth, l.rows(), {depth, 1}, {1, depth}, l.rows()};
    shape.type = kProductType<T>;
    return shape;
  };
  {
    TeamScope team(threads);
    for (int64_t layer = 0; layer < std::min<int64_t>(l.layers, 2); ++layer)
      input_[layer].emplace(product(chunk_ * l.batch, l.width(layer)));
  }
  TeamScope small(step_threads(l));
  state_.emplace(product(l.batch, l.units));
  for (size_t kind = 0; kind < 2; ++kind) {
    const size_t w = input_[kind] ? input_[kind]->packed_bytes() : 0;
    parts_[kind] = {aligned(static_cast<size_t>(l.rows() + l.units) * sizeof(Wide<T>)), aligned(w),
                    aligned(state_->packed_bytes())};
  }
}

template <class T>
size_t RnnWeights<T>::offset(int64_t layer, int64_t direction) const {
  const auto d = static_cast<size_t>(layout_.directions);
  const size_t below = layer > 0 ? d * parts_[0].bytes() + static_cast<size_t>(layer - 1) * d * parts_[1].bytes() : 0;
  return below + static_cast<size_t>(direction) * bytes(layer);
}

template <class T>
std::vector<int64_t> RnnWeights<T>::format() const {
  std::vector<int64_t> all = {apart_, layout_.input, layout_.units, layout_.gates, layout_.layers, layout_.directions};
  if constexpr (std::is_same_v<T, double>) {
    return {};
  } else {
    for (const auto* product : {&input_[0], &input_[1], &state_}) {
      if (!*product) continue;
      const std::vector<int64_t> order = format_of((*product)->packed());
      if (order.empty()) return {};
      all.insert(all.end(), order.begin(), order.end());
    }
    return all;
  }
}

template <class T>
size_t RnnWeights<T>::scratchpad_bytes() const {
  size_t most = state_->scratchpad_bytes();
  for (const auto& product : input_)
    if (product) most = std::max(most, product->scratchpad_bytes());
  return most;
}

template <class T>
typename RnnWeights<T>::Parts RnnWeights<T>::at(int64_t layer, const void* space) const {
  const Sizes& sizes = parts_[layer > 0 ? 1 : 0];
  const auto* begin = static_cast<const char*>(space);
  return {reinterpret_cast<const Wide<T>*>(begin), begin + sizes.bias, begin + sizes.bias + sizes.w};
}

template <class T>
typename RnnWeights<T>::Parts RnnWeights<T>::pack(const T* parameters, int64_t layer, int64_t direction,
                                   void* space) const {
  const Parts to = at(layer, space);
  sum_biases(layout_, apart_, parameters + layout_.b_w(layer, direction), parameters + layout_.b_r(layer, direction),
             const_cast<Wide<T>*>(to.bias));
  const auto packed = [&](const ProductOf<T>& product, int64_t from, const void* place) {
    return typename ProductOf<T>::Frame(product, nullptr).pack(parameters + from, const_cast<void*>(place));
  };
  return {to.bias, packed(of_input(layer), layout_.w(layer, direction), to.w),
          packed(of_state(), layout_.r(layer, direction), to.r)};
}

template <class T>
void RnnWeights<T>::place(const T* parameters, int64_t layer, int64_t direction,
                       void* space) const {
  const Parts to = at(layer, space), made = pack(parameters, layer, direction, space);
  if (made.w != to.w) std::memcpy(const_cast<void*>(to.w), made.w, of_input(layer).packed_bytes());
  if (made.r != to.r) std::memcpy(const_cast<void*>(to.r), made.r, of_state().packed_bytes());
}

template class RnnWeights<float>;
template class RnnWeights<double>;
template class RnnWeights<BFloat16>;

}  // namespace mx::cpu
