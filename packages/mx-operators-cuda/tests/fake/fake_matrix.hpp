// SPDX-License-Identifier: Apache-2.0
//
// Matrices in memory of the fake driver, column-major, for the libraries that multiply them.
#pragma once

#include "emulation.hpp"

#include "fake_cuda.hpp"

namespace fake {

enum : int { kReal32 = 0, kReal64 = 1, kReal16 = 2, kBrain16 = 14 };

struct Matrix {
  unsigned long long data;
  int type, row;
  long long stride;
  bool transposed;

  size_t at(int batch, int i, int j) const {
    const long long r = transposed ? j : i, c = transposed ? i : j;
    return static_cast<size_t>(batch * stride + c * row + r);
  }
  char* element(size_t index, size_t bytes) const {
    return reinterpret_cast<char*>(data & ~kFakeDeviceBit) + index * bytes;
  }
  double get(size_t index) const {
    switch (type) {
      case kReal32: return *reinterpret_cast<float*>(element(index, 4));
      case kReal64: return *reinterpret_cast<double*>(element(index, 8));
      case kReal16: return mx::widen(*reinterpret_cast<mx::half*>(element(index, 2)));
      default: return mx::widen(*reinterpret_cast<mx::bfloat16*>(element(index, 2)));
    }
  }
  void set(size_t index, double value) const {
    switch (type) {
      case kReal32: *reinterpret_cast<float*>(element(index, 4)) = static_cast<float>(value); break;
      case kReal64: *reinterpret_cast<double*>(element(index, 8)) = value; break;
      case kReal16:
        *reinterpret_cast<mx::half*>(element(index, 2)) = mx::to_half(static_cast<float>(value));
        break;
      default:
        *reinterpret_cast<mx::bfloat16*>(element(index, 2)) =
            mx::to_bfloat16(static_cast<float>(value));
    }
  }
};

size_t width(int type) { return type == kReal64 ? 8 : type == kReal32 ? 4 : 2; }

}  // namespace fake
