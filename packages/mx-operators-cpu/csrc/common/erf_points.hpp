// SPDX-License-Identifier: Apache-2.0
//
// The error function of float64 numbers at regular points.
#pragma once

#include <cstdint>

namespace mx::cpu {

// erf(r) and its derivative.
struct alignas(16) ErfPoint {
  double value, slope;
};

constexpr int64_t kErfDensity = 256;  // points per 1
constexpr double kErfEnd = 5.9375;    // from here on erf rounds to 1
constexpr int64_t kErfPointCount = static_cast<int64_t>(kErfEnd * kErfDensity) + 1;
constexpr double kErfMagic = 6755399441055744.0 / kErfDensity;  // 1.5 * 2^52: adding it rounds to a point

struct ErfPoints {
  ErfPoint at[kErfPointCount];  // [r * kErfDensity]
};
extern const ErfPoints kErfPoints;

}  // namespace mx::cpu
