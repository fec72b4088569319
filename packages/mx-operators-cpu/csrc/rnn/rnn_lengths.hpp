// SPDX-License-Identifier: Apache-2.0
//
// Which rows of the batch lie within their sequences at a step.
#pragma once

#include <sstream>

#include "rnn/rnn_layout.hpp"

namespace mx::cpu {

class RnnLengths {
 public:
  // All sequences are full where `lengths` is nullptr.  `whole`: memory for a number for each.
  RnnLengths(const RnnLayout& l, const float* lengths, int64_t* whole) {
    if (lengths == nullptr) return;
    for (int64_t n = 0; n < l.batch; ++n) {
      if (!(lengths[n] >= 0 && lengths[n] <= static_cast<float>(l.steps))) {
        std::ostringstream message;
        message << "[RNN] sequence_length: expected 0 to " << l.steps << ", got " << lengths[n];
        throw Error(MX_ERROR_INDEX, message.str());
      }
      whole[n] = static_cast<int64_t>(lengths[n]);
    }
    lengths_ = whole;
  }

  bool padded() const { return lengths_ != nullptr; }
  int64_t operator[](int64_t row) const { return lengths_[row]; }

  // Calls `within(begin, end)` and `beyond(begin, end)` for runs of the rows [begin, end) at step t.
  template <class Within, class Beyond>
  void each_run(int64_t t, int64_t begin, int64_t end, const Within& within, const Beyond& beyond) const {
    if (!padded()) return within(begin, end);
    while (begin < end) {
      const bool inside = t < (*this)[begin];
      int64_t next = begin + 1;
      while (next < end && (t < (*this)[next]) == inside) ++next;
      inside ? within(begin, next) : beyond(begin, next);
      begin = next;
    }
  }

 private:
  const int64_t* lengths_ = nullptr;
};

}  // namespace mx::cpu
