// SPDX-License-Identifier: Apache-2.0
//
// One block of scratch memory, and kernels that compute in float32 on tensors of either type.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "onednn/primitive_plan.h"
#include "common/staging.h"

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

// Whether tensors hold floats, else BFloat16; throws Unsupported where they differ.  `inputs_apart` and
// `outputs_apart` are float32 always.
inline bool all_float(const Signature& s, std::initializer_list<size_t> inputs_apart,
                      std::initializer_list<size_t> outputs_apart = {}) {
  const DataType type = s.outputs[0].type;
  const auto check = [type](const std::vector<Spec>& specs, std::initializer_list<size_t> apart) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const bool fixed = std::find(apart.begin(), apart.end(), i) != apart.end();
      if (specs[i].type != (fixed ? DataType::f32 : type)) throw Unsupported{};
    }
  };
  check(s.inputs, inputs_apart);
  check(s.outputs, outputs_apart);
  return type == DataType::f32;
}

}  // namespace mx::onednn
