// SPDX-License-Identifier: Apache-2.0
//
// Means of the windows along one row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mx_core/abi.h"

namespace mx_example {

// A row of `length` values with `padding` zeros before and after it.
template <class T>
struct PaddedRow {
  const T* values;
  int64_t length;
  int64_t padding;

  int64_t size() const { return length + 2 * padding; }
  double operator[](int64_t i) const {
    const int64_t at = i - padding;
    return at >= 0 && at < length ? static_cast<double>(values[at]) : 0.0;
  }
};

// Writes (or adds) the means of all windows of `row`; `suffix` is scratch for `window` values.
//
// A window that starts inside block b of `window` values is the rest of block b and the beginning
// of block b + 1, so sums to the end and from the beginning of blocks give each mean with one
// addition.  Unlike a running sum nothing is subtracted: no cancellation, and a NaN stays within
// its windows.
// Source: van Herk, "A fast algorithm for local minimum and maximum filters on rectangular and
// octagonal kernels", Pattern Recognition Letters 13 (1992), with + in place of min.
template <class T>
void window_means(const PaddedRow<T>& row, int64_t window, mx_req req, double* suffix, T* means) {
  const int64_t count = row.size() - window + 1;
  for (int64_t block = 0; block < count; block += window) {
    double sum = 0.0;
    for (int64_t i = window - 1; i >= 0; --i) suffix[i] = sum += row[block + i];
    double prefix = 0.0;  // of the next block
    const int64_t n = std::min(window, count - block);
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) prefix += row[block + window + i - 1];
      const T mean = static_cast<T>((suffix[i] + prefix) / static_cast<double>(window));
      T& target = means[block + i];
      target = req == MX_REQ_ADD ? target + mean : mean;
    }
  }
}

}  // namespace mx_example
