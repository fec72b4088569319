// SPDX-License-Identifier: Apache-2.0
#include "elementwise/broadcast.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace mx::cpu {
namespace {

std::string text(const Shape& shape) {
  std::ostringstream out;
  out << '(';
  for (size_t i = 0; i < shape.size(); ++i) out << (i == 0 ? "" : ", ") << shape[i];
  out << (shape.size() == 1 ? ",)" : ")");
  return out.str();
}

// Row-major strides under the output's axes, 0 where the operand has one element for many.
Shape strides_under(const Shape& output, const Shape& operand) {
  const auto fail = [&] {
    throw Error(MX_ERROR_SHAPE, "[expression] shape " + text(operand) +
                                    " does not broadcast to the output's " + text(output));
  };
  if (operand.size() > output.size()) fail();
  Shape strides(output.size(), 0);
  int64_t stride = 1;
  for (size_t back = 1; back <= operand.size(); ++back) {
    const int64_t size = operand[operand.size() - back];
    const size_t axis = output.size() - back;
    if (size != output[axis] && size != 1) fail();
    strides[axis] = size == 1 ? 0 : stride;
    stride *= size;
  }
  return strides;
}

template <class T>
void fill_run(char* out, const char* value, int64_t n) {
  std::fill_n(reinterpret_cast<T*>(out), n, *reinterpret_cast<const T*>(value));
}

}  // namespace

void fill(char* out, const char* value, int64_t n, size_t item_size) {
  switch (item_size) {
    case 1:
      return fill_run<uint8_t>(out, value, n);
    case 2:
      return fill_run<uint16_t>(out, value, n);
    case 4:
      return fill_run<uint32_t>(out, value, n);
    default:
      return fill_run<uint64_t>(out, value, n);
  }
}

Broadcast collapse(const Shape& output, const std::vector<Spec>& operands) {
  std::vector<Shape> full;
  for (const Spec& operand : operands) full.push_back(strides_under(output, operand.shape));
  Broadcast result;
  result.strides.resize(operands.size());
  for (size_t axis = 0; axis < output.size(); ++axis) {
    if (output[axis] == 1) continue;
    const bool merge =
        !result.sizes.empty() &&
        std::all_of(full.begin(), full.end(), [&, i = size_t{0}](const Shape& strides) mutable {
          return result.strides[i++].back() == strides[axis] * output[axis];
        });
    if (merge) {
      result.sizes.back() *= output[axis];
    } else {
      result.sizes.push_back(output[axis]);
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      if (merge) {
        result.strides[i].back() = full[i][axis];
      } else {
        result.strides[i].push_back(full[i][axis]);
      }
    }
  }
  return result;
}

void expand(char* out, const char* operand, const Shape& sizes, const Shape& strides, int64_t start,
            int64_t n, size_t item_size) {
  const size_t rank = sizes.size();
  const int64_t inner = sizes[rank - 1], inner_stride = strides[rank - 1];
  int64_t position = start % inner, row = start / inner;
  while (n > 0) {
    int64_t offset = position * inner_stride;
    for (size_t axis = rank - 1, rest = static_cast<size_t>(row); axis-- > 0;) {
      offset += static_cast<int64_t>(rest % static_cast<size_t>(sizes[axis])) * strides[axis];
      rest /= static_cast<size_t>(sizes[axis]);
    }
    const int64_t run = std::min(n, inner - position);
    const char* source = operand + offset * static_cast<int64_t>(item_size);
    const size_t bytes = static_cast<size_t>(run) * item_size;
    if (inner_stride == 0) {
      fill(out, source, run, item_size);
    } else {
      std::memcpy(out, source, bytes);
    }
    out += bytes;
    n -= run;
    position = 0;
    ++row;
  }
}

}  // namespace mx::cpu
