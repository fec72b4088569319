// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd/problem.hpp"

#include <algorithm>

namespace mx::cpu {
namespace {

// Costs in products of one core: per element of a tile's points (written and read), per element of transformed
// filters that is made, per one that is read from memory. Measured in float32 on a Zen 5 core; only their order of
// magnitude counts.
constexpr double kPointCost = 15, kFilterMade = 40, kFilterRead = 20, kProductCost = 1.25;

double cost(const WinogradProblem& p, double per_filter) {
  const double both = static_cast<double>(p.channels * p.filters), tiles = static_cast<double>(p.tiles());
  const double moved = static_cast<double>(p.channels + p.filters);
  return static_cast<double>(kPoints) * (tiles * (kProductCost * both + kPointCost * moved) + per_filter * both);
}

double direct_cost(const WinogradProblem& p) {
  return static_cast<double>(p.images * p.out_height * p.out_width) * static_cast<double>(p.channels * p.filters) *
         static_cast<double>(kFilter * kFilter);
}

// Transformed filters of a larger layer are not worth the memory.
constexpr int64_t kMostFilterBytes = 128 << 20;

}  // namespace

template <class T>
bool possible(const WinogradProblem& p) {
  return uses_avx512() && p.channels % kLanesOf<T> == 0 && p.filters % kLanesOf<T> == 0 && p.channels > 0 &&
         p.filters > 0 && p.tiles() > 0 && std::max(p.channels, p.filters) <= kMostChannels &&
         p.channels <= kMostFilterBytes / static_cast<int64_t>(sizeof(T)) / kPoints / p.filters;
}

template bool possible<float>(const WinogradProblem&);
template bool possible<double>(const WinogradProblem&);

bool pays(const WinogradProblem& p, bool ready) {
  return cost(p, ready ? kFilterRead : kFilterRead + kFilterMade) < direct_cost(p);
}

bool gradient_pays(const WinogradProblem& p) { return cost(p, kFilterRead + kFilterMade) < direct_cost(p); }

}  // namespace mx::cpu
