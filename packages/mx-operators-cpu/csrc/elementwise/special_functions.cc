// SPDX-License-Identifier: Apache-2.0
#include "elementwise/special_functions.hpp"

#include <cmath>
#include <limits>

namespace mx::cpu::rare {
namespace {
constexpr double kPi = 3.14159265358979323846;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

template <int N>
double horner(const double (&powers)[N], double w) {
  double p = 0.0;
  for (double c : powers) p = p * w + c;
  return p;
}
}  // namespace

// M. Giles, Approximating the erfinv function, GPU Computing Gems, 2011, as a start for Newton.
double erfinv(double x) {
  if (std::fabs(x) == 1.0) return std::copysign(kInfinity, x);
  if (!(std::fabs(x) < 1.0)) return kNotANumber;
  static constexpr double central[] = {2.81022636e-08, 3.43273939e-07,  -3.5233877e-06,
                                       -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                       -0.00417768164,  0.246640727,    1.50140941};
  static constexpr double tail[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                    -0.00367342844,  0.00573950773,  -0.0076224613,
                                    0.00943887047,   1.00167406,     2.83297682};
  const double w = -std::log((1 - x) * (1 + x));
  double y = (w < 5 ? horner(central, w - 2.5) : horner(tail, std::sqrt(w) - 3)) * x;
  for (int i = 0; i < 2; ++i) y -= (std::erf(y) - x) / (2 / std::sqrt(kPi) * std::exp(-y * y));
  return y;
}

double gamma(double x) {
  if (x < 0 && x == std::floor(x)) return kNotANumber;  // a pole, or -inf
  return std::tgamma(x);
}

double gammaln(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);  // lgamma would write a global
}

// Reflection, recurrence to 10, asymptotic series: Abramowitz and Stegun 6.3.7, 6.3.5, 6.3.18.
double digamma(double x) {
  if (!std::isfinite(x)) return x > 0 ? x : kNotANumber;
  double reflected = 0.0;
  if (x <= 0) {
    if (x == std::floor(x)) return kNotANumber;
    reflected = -kPi / std::tan(kPi * x);
    x = 1 - x;
  }
  double shift = 0.0;
  for (; x < 10; x += 1) shift -= 1 / x;
  const double z = 1 / (x * x);
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132)))));
  return reflected + shift + std::log(x) - 0.5 / x - series;
}

}  // namespace mx::cpu::rare
