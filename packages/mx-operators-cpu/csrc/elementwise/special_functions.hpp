// SPDX-License-Identifier: Apache-2.0
//
// Special functions in double, too rare to be vectorised.
#pragma once

namespace mx::cpu::rare {

double erfinv(double x);
double gamma(double x);
double gammaln(double x);
double digamma(double x);

}  // namespace mx::cpu::rare
