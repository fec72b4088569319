// SPDX-License-Identifier: Apache-2.0
//
// Some vectors of AVX-512 that are computed side by side: one chain of products would leave the units idle.  Included by
// the translation unit of AVX-512 alone, inside its own namespace.

constexpr size_t kAbreast = 4;
struct Wide {
  __m512 part[kAbreast];
};
struct WideDouble {
  __m512d part[kAbreast];
};

template <class Operation, class Operand, class... Operands>
MX_INLINE Operand each(Operation operation, const Operand& first, const Operands&... others) {
  return {{operation(first.part[0], others.part[0]...), operation(first.part[1], others.part[1]...),
           operation(first.part[2], others.part[2]...), operation(first.part[3], others.part[3]...)}};
}
#define MX_EACH(intrinsic, ...) each([](auto... part) MX_INLINE_LAMBDA { return intrinsic(part...); }, __VA_ARGS__)
