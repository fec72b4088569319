// SPDX-License-Identifier: Apache-2.0
#include "convolution/window_operands.hpp"

#include <algorithm>

namespace mx::cpu {
namespace {

constexpr int64_t kShortRow = 16;  // elements that are put before the code for an instruction set is found

}  // namespace

template <class T>
void TransposedFilters<T>::pack(T* panel, int64_t width, int64_t first, int64_t lines, int64_t begin,
                             int64_t depth) const {
  const bool last = geometry_.channels_last;
  const int64_t taps = gather_.n_taps(), filters = geometry_.filters;
  const int64_t line_step = last ? 1 : geometry_.taps(), tap_step = last ? geometry_.channels : 1;
  for (int64_t k = 0; k < depth; ++k, panel += width) {
    const int64_t q = begin + k, filter = last ? q % filters : q / taps, tap = last ? q / filters : q % taps;
    const T* from = weight_ + filter * geometry_.window() + first * line_step +
                         gather_.tap_index[static_cast<size_t>(tap)] * tap_step;
    for (int64_t i = 0; i < lines; ++i) panel[i] = from[i * line_step];
    std::fill(panel + lines, panel + width, T(0));
  }
}

template <class T>
void Scattered<T>::put(int64_t row, int64_t column, const T* sums, int64_t n, bool first) const {
  const bool add = add_ || !first;
  const T* bias = first ? bias_ : nullptr;
  if (geometry_.channels_last) {
    T* to = data_ + place(row) * steps_.position + column;
    for (int64_t j = 0; j < n; ++j) {
      const T x = sums[j] + (bias != nullptr ? bias[column + j] : 0);
      to[j] = add ? to[j] + x : x;
    }
    return;
  }
  const T start = bias != nullptr ? bias[row] : 0;
  const int64_t width = gather_.axes[2].positions, step = gather_.step[2];
  for (int64_t j = 0; j < n;) {
    const int64_t end = std::min(n, j + width - (column + j) % width);
    T* to = data_ + row * steps_.channel + place(column + j);
    for (; j < end; ++j, to += step) *to = add ? *to + sums[j] + start : sums[j] + start;
  }
}

template <class T>
int64_t Scattered<T>::place(int64_t position) const {
  const int64_t x = position % gather_.axes[2].positions, row = position / gather_.axes[2].positions;
  const int64_t at[3] = {row / gather_.axes[1].positions, row % gather_.axes[1].positions, x};
  int64_t found = 0;
  for (size_t i = 0; i < 3; ++i)
    found = found * geometry_.axes[i].large + gather_.first[i] + at[i] * gather_.step[i];
  return found;
}

template <class T>
GroupResult<T>::GroupResult(const ConvolutionGeometry& g, const Gather& gather, bool to_large,
                         const ConvolutionResult<T>& result, int64_t image, int64_t group)
    : dense_(is_dense(gather)), last_(g.channels_last), add_(result.add), steps_(to_large ? g.large() : g.small()),
      data_(result.to + image * steps_.image + group * steps_.group),
      bias_(result.bias == nullptr ? nullptr : result.bias + group * (to_large ? g.channels : g.filters)),
      scattered_(g, gather, steps_, data_, result.add, bias_),
      rows_(data_, g.channels_last ? steps_.position : steps_.channel, result.add, g.channels_last ? nullptr : bias_,
            g.channels_last ? bias_ : nullptr) {}

template <class T>
void GroupResult<T>::put_channels(int64_t channel, int64_t n, int64_t position, int64_t count, T* sums,
                               int64_t step) const {
  if (!last_ && dense_ && count <= kShortRow) {
    T* to = data_ + channel * steps_.channel + position;
    for (int64_t c = 0; c < n; ++c, to += steps_.channel, sums += step) {
      const T start = bias_ == nullptr ? T(0) : bias_[channel + c];
      for (int64_t i = 0; i < count; ++i) to[i] = add_ ? to[i] + (sums[i] + start) : sums[i] + start;
    }
    return;
  }
  if (!last_) {
    for (int64_t c = 0; c < n; ++c) target().put(channel + c, position, sums + c * step, count, true);
    return;
  }
  if (bias_ != nullptr)
    for (int64_t c = 0; c < n; ++c)
      for (int64_t i = 0; i < count; ++i) sums[c * step + i] += bias_[channel + c];
  T* to = data_ + position * steps_.position + channel;
  if (!add_) return transposed<T>()(to, steps_.position, sums, step, count, n);
  for (int64_t i = 0; i < count; ++i, to += steps_.position)
    for (int64_t c = 0; c < n; ++c) to[c] += sums[c * step + i];
}

template class TransposedFilters<float>;
template class TransposedFilters<double>;
template class Scattered<float>;
template class Scattered<double>;
template class GroupResult<float>;
template class GroupResult<double>;

}  // namespace mx::cpu
