// SPDX-License-Identifier: Apache-2.0
//
// Generated CUDA kernels on the processor: the qualifiers, built-in variables and device functions
// of CUDA that `elementwise.cuh` and the generator use, in plain C++.  Threads run one after the other,
// which computes the same for kernels whose threads do not talk to each other; those of a kernel with
// barriers take turns from barrier to barrier.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __shared__ static thread_local

struct Dim3 { unsigned x = 1, y = 1, z = 1; };
// of the thread: streams of the fake driver run kernels at the same time
inline thread_local Dim3 gridDim, blockDim, blockIdx, threadIdx;

template <class To, class From> To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline double __longlong_as_double(long long x) { return bits_as<double>(x); }
inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
inline float __double2float_rz(double x) {
  const float y = static_cast<float>(x);
  return std::fabs(static_cast<double>(y)) > std::fabs(x) ? std::nextafterf(y, 0.0f) : y;
}

inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float rcbrtf(float x) { return 1 / std::cbrt(x); }
inline double rcbrt(double x) { return 1 / std::cbrt(x); }

// Newton's method on erf; far in the tail the start decides.
inline double erfinv(double x) {
  if (!(std::fabs(x) < 1)) return std::fabs(x) == 1 ? x * INFINITY : NAN;
  const double l = std::log((1 - x) * (1 + x)), k = 4.330746750799873 + l / 2;
  double y = std::copysign(std::sqrt(std::sqrt(k * k - l / 0.147) - k), x);
  for (int i = 0; i < 4; ++i) y -= (std::erf(y) - x) * 0.886226925452758 * std::exp(y * y);
  return y;
}
inline float erfinvf(float x) { return static_cast<float>(erfinv(x)); }

// Threads run one after the other; those of a stream are one thread.
inline unsigned long long atomicAdd(unsigned long long* to, unsigned long long x) {
  const unsigned long long before = *to;
  *to = before + x;
  return before;
}

#include "mx_core/philox.hpp"
#include "mx_operators_cuda/elementwise.cuh"

// called by kernels whose threads meet; at the end of this file
inline void __syncthreads();

#include "mx_operators_cuda/aligned.cuh"
#include "mx_operators_cuda/block.cuh"
#include "mx_operators_cuda/boxes.cuh"
#include "mx_operators_cuda/cofactors.cuh"
#include "mx_operators_cuda/columns.cuh"
#include "mx_operators_cuda/convolution.cuh"
#include "mx_operators_cuda/correlation.cuh"
#include "mx_operators_cuda/counts.cuh"
#include "mx_operators_cuda/ctc.cuh"
#include "mx_operators_cuda/deformable.cuh"
#include "mx_operators_cuda/density.cuh"
#include "mx_operators_cuda/detectors.cuh"
#include "mx_operators_cuda/factor.cuh"
#include "mx_operators_cuda/fill.cuh"
#include "mx_operators_cuda/fourier.cuh"
#include "mx_operators_cuda/hawkes.cuh"
#include "mx_operators_cuda/images.cuh"
#include "mx_operators_cuda/indexing.cuh"
#include "mx_operators_cuda/lrn.cuh"
#include "mx_operators_cuda/masks.cuh"
#include "mx_operators_cuda/orthogonal.cuh"
#include "mx_operators_cuda/places.cuh"
#include "mx_operators_cuda/pooling.cuh"
#include "mx_operators_cuda/proposals.cuh"
#include "mx_operators_cuda/regions.cuh"
#include "mx_operators_cuda/rnn.cuh"
#include "mx_operators_cuda/samplers.cuh"
#include "mx_operators_cuda/sampling.cuh"
#include "mx_operators_cuda/sequence.cuh"
#include "mx_operators_cuda/sort.cuh"
#include "mx_operators_cuda/tiles.cuh"

namespace mx {

// To 16 bits with a fraction of `digits` bits and exponents from `lowest`, to nearest, ties to even.
inline uint16 to_16_bits(float x, int digits, int lowest) {
  const uint16 sign = std::signbit(x) ? 0x8000 : 0;
  const uint16 infinite = static_cast<uint16>(0x7fff >> digits << digits);
  if (std::isnan(x)) return infinite | static_cast<uint16>(1 << (digits - 1));
  const double a = std::fabs(static_cast<double>(x));
  if (a == 0) return sign;
  if (std::isinf(x)) return sign | infinite;
  int exponent = std::ilogb(a);
  if (exponent < lowest) exponent = lowest;
  const double units = std::nearbyint(std::ldexp(a, digits - exponent));
  // a fraction that rounds up to the next power of two carries into the exponent by itself
  const double bits = units + std::ldexp(static_cast<double>(exponent - lowest), digits);
  return sign | (bits >= infinite ? infinite : static_cast<uint16>(bits));
}

half to_half(float x) { return {to_16_bits(x, 10, -14)}; }
bfloat16 to_bfloat16(float x) { return {to_16_bits(x, 7, -126)}; }
float widen(half x) {
  const int exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
  const double sign = x.bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? NAN : static_cast<float>(sign * INFINITY);
  const int whole = exponent == 0 ? fraction : fraction + 1024;
  return static_cast<float>(sign * std::ldexp(whole, (exponent == 0 ? 1 : exponent) - 25));
}

// What a launch says beside its arguments.
struct Extents {
  Dim3 grid, block;
  std::size_t shared_bytes = 0;
};

// Memory that a kernel declares as `extern __shared__`; of the block that runs.
inline std::vector<std::max_align_t>& shared_memory() {
  thread_local std::vector<std::max_align_t> memory;
  return memory;
}
inline void* dynamic_shared() { return shared_memory().data(); }

inline void prepare(const Extents& e) {
  gridDim = e.grid;
  blockDim = e.block;
  auto& memory = shared_memory();
  memory.resize(e.shared_bytes / sizeof(std::max_align_t) + 1);
  std::memset(memory.data(), 0xA5, memory.size() * sizeof(std::max_align_t));
}

// Calls `body` with `index` at every place of a grid or block.
template <class Body> void everywhere(const Dim3& extent, Dim3& index, const Body& body) {
  for (index.z = 0; index.z < extent.z; ++index.z) {
    for (index.y = 0; index.y < extent.y; ++index.y) {
      for (index.x = 0; index.x < extent.x; ++index.x) body();
    }
  }
}

// The arguments arrive as the driver takes them: an array of pointers to the values.
template <class... P, std::size_t... I>
void run(void (*kernel)(P...), const Extents& extents, void** arguments, std::index_sequence<I...>) {
  prepare(extents);
  everywhere(extents.grid, blockIdx, [&] {
    everywhere(extents.block, threadIdx, [&] { kernel(*static_cast<P*>(arguments[I])...); });
  });
}
template <class... P> void run(void (*kernel)(P...), const Extents& extents, void** arguments) {
  run(kernel, extents, arguments, std::index_sequence_for<P...>{});
}
template <class... P>
void run(void (*kernel)(P...), unsigned blocks, unsigned threads, void** arguments) {
  run(kernel, Extents{{blocks}, {threads}}, arguments);
}
// ---- kernels with barriers: a context of its own for every thread of a block ----

struct Turns {
  std::jmp_buf home;                // where a thread of the block stops
  std::vector<std::jmp_buf*> at;    // where it goes on; null before its first turn
  std::vector<bool> done;
  unsigned now = 0;
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
};
inline thread_local Turns* turns = nullptr;
constexpr std::size_t kStack = 32 << 10;
inline thread_local std::vector<std::unique_ptr<char[]>> stacks;  // kept from block to block

inline void take_turn() {
  Turns& t = *turns;
  t.body(t.argument);
  t.done[t.now] = true;
  _longjmp(t.home, 1);
}

// Runs thread `i` up to its next barrier. Only the first turn makes a context: that costs a system call.
inline void run_turn(Turns& t, unsigned i) {
  t.now = i;
  threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
  if (_setjmp(t.home) != 0) return;
  if (t.at[i] != nullptr) _longjmp(*t.at[i], 1);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stacks[i].get();
  context.uc_stack.ss_size = kStack;
  context.uc_link = nullptr;
  makecontext(&context, take_turn, 0);
  setcontext(&context);
}

// Runs `body` in every thread of the current block.
inline void run_block(unsigned threads, void (*body)(void*), void* argument) {
  Turns t;
  turns = &t;
  t.body = body;
  t.argument = argument;
  t.at.assign(threads, nullptr);
  t.done.assign(threads, false);
  while (stacks.size() < threads) stacks.emplace_back(new char[kStack]);
  for (unsigned left = threads; left > 0;) {
    left = threads;
    for (unsigned i = 0; i < threads; ++i) {
      if (!t.done[i]) run_turn(t, i);
      if (t.done[i]) --left;
    }
  }
  turns = nullptr;
}

template <class... P, std::size_t... I>
void run_with_barriers(void (*kernel)(P...), const Extents& extents, void** arguments,
                       std::index_sequence<I...>) {
  prepare(extents);
  const unsigned threads = extents.block.x * extents.block.y * extents.block.z;
  const auto one = [&] { kernel(*static_cast<P*>(arguments[I])...); };
  everywhere(extents.grid, blockIdx, [&] {
    run_block(threads, [](void* call) { (*static_cast<decltype(one)*>(call))(); },
              const_cast<void*>(static_cast<const void*>(&one)));
  });
}
template <class... P> void run_with_barriers(void (*kernel)(P...), const Extents& extents, void** arguments) {
  run_with_barriers(kernel, extents, arguments, std::index_sequence_for<P...>{});
}
template <class... P>
void run_with_barriers(void (*kernel)(P...), unsigned blocks, unsigned threads, void** arguments) {
  run_with_barriers(kernel, Extents{{blocks}, {threads}}, arguments);
}

template <class... P> unsigned arity(void (*)(P...)) { return sizeof...(P); }

// ---- for the fake driver, whose device addresses carry a mark ----

constexpr std::uint64_t kDeviceBit = 1ull << 60;

// Bytes of each parameter; returns how many there are.
template <class... P> int sizes(void (*)(P...), std::size_t* out) {
  const std::size_t all[] = {sizeof(P)..., 0};
  for (std::size_t i = 0; out != nullptr && i < sizeof...(P); ++i) out[i] = all[i];
  return sizeof...(P);
}

// Takes the mark off a pointer; false when it is memory of the host.
template <class P> struct is_given : std::false_type {};
template <class T> struct is_given<Given<T>> : std::true_type {};
template <class P> bool to_host(void* argument) {
  if constexpr (is_given<P>::value) {
    return to_host<const void*>(static_cast<char*>(argument) + offsetof(P, place));
  } else if constexpr (std::is_pointer_v<P>) {
    std::uint64_t address;
    std::memcpy(&address, argument, sizeof address);
    if (address != 0 && (address & kDeviceBit) == 0) return false;
    address &= ~kDeviceBit;
    std::memcpy(argument, &address, sizeof address);
  }
  return true;
}
// False when a pointer is none into device memory.
template <class... P, std::size_t... I>
bool take_marks(void (*)(P...), void** arguments, std::index_sequence<I...>) {
  return (to_host<P>(arguments[I]) && ...);
}
template <class... P> bool take_marks(void (*kernel)(P...), void** arguments) {
  return take_marks(kernel, arguments, std::index_sequence_for<P...>{});
}

}  // namespace mx

inline void __syncthreads() {
  mx::Turns& t = *mx::turns;
  std::jmp_buf here;  // on the stack of the thread that waits
  if (_setjmp(here) != 0) return;
  t.at[t.now] = &here;
  _longjmp(t.home, 1);
}
