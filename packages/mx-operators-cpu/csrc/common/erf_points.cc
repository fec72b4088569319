// SPDX-License-Identifier: Apache-2.0
#include "common/erf_points.hpp"

namespace mx::cpu {
namespace {

constexpr long double kTwoOverRootPi = 1.12837916709551257389615890312154517L;

// Made by the compiler, in a wider type.
constexpr ErfPoints make_points() {
  ErfPoints made{};
  for (int64_t i = 0; i < kErfPointCount; ++i) {
    const long double r = static_cast<long double>(i) / kErfDensity;
    made.at[i] = {static_cast<double>(__builtin_erfl(r)), static_cast<double>(kTwoOverRootPi * __builtin_expl(-r * r))};
  }
  return made;
}

}  // namespace

constexpr ErfPoints kErfPoints = make_points();

}  // namespace mx::cpu
