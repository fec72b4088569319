// SPDX-License-Identifier: Apache-2.0
//
// Operators as the imperative side sees them: parameters with an identity, a
// bounded cache from signatures to prepared calls, gradients as data.
//
// Threads: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "call.hpp"
#include "keyed_cache.hpp"

namespace mx::nd {

struct Gradient;

// A parameter instance of one operator.  Equal `key` within it means equal kernels: run-time
// scalars do not take part.  Derived by the bindings, which keep the Python instance.
class Params : public Counted {
 public:
  Params(uint64_t key, std::vector<double> scalars) : key(key), scalars(std::move(scalars)) {}
  void retain() noexcept { add_reference(); }
  void release() noexcept {
    if (drop_reference()) delete this;
  }
  const uint64_t key;
  const std::vector<double> scalars;
  std::atomic<const Gradient*> gradient{nullptr};  // Owns; set at first use

 protected:
  virtual ~Params();
};

// Signature -> call.  Threads: any.
class SignatureCache final : public KeyedCache<Call> {
 public:
  static constexpr size_t kLimit = 4096;  // entries
  SignatureCache() : KeyedCache(kLimit) {}
};

// What one invocation is about; arrays are borrowed.
struct Signature {
  Params* params = nullptr;
  Array* const* inputs = nullptr;
  uint32_t n_inputs = 0;
  Array* const* outputs = nullptr;  // given outputs, or NULL
  uint32_t n_outputs = 0;
  mx_context context{MX_CPU, 0};
  bool is_train = false;
};

// An operator of the registry.  Derived by the bindings.
class Operator : public Counted {
 public:
  Operator(std::string name, bool train_sensitive)
      : name(std::move(name)), train_sensitive(train_sensitive) {}
  void retain() noexcept { add_reference(); }
  void release() noexcept {
    if (drop_reference()) delete this;
  }
  // The call for a signature, from the cache or prepared.
  Ref<Call> call(const Signature& signature);
  // The gradient for parameters; lives as long as they do.
  const Gradient& gradient(Params& params);

  const std::string name;
  const bool train_sensitive;
  SignatureCache cache;

 protected:
  virtual ~Operator() = default;
  virtual Ref<Call> prepare(const Signature& signature) = 0;
  virtual std::unique_ptr<Gradient> make_gradient(Params& params) = 0;
};

struct GradientEntry {
  enum class Kind : uint8_t { kZero, kOutGrad, kInput, kOutput, kStep };
  Kind kind = Kind::kZero;
  uint32_t index = 0;
  uint32_t output = 0;
};

struct GradientStep {
  Ref<Operator> op;
  Ref<Params> params;
  std::vector<GradientEntry> inputs;
};

// What backward keeps of a tensor.
enum class Keep : uint8_t { kNothing, kShape, kValue };

// mx_core.operator.Gradient, ready to be replayed.
struct Gradient {
  std::vector<GradientStep> steps;
  std::vector<GradientEntry> grads;  // per input, auxiliary states excluded
  std::vector<Keep> inputs;          // per input, auxiliary states included
  std::vector<Keep> outputs;

  bool reads_out_grad() const {
    const auto reads = [](const GradientEntry& entry) {
      return entry.kind == GradientEntry::Kind::kOutGrad;
    };
    return std::any_of(grads.begin(), grads.end(), reads) ||
           std::any_of(steps.begin(), steps.end(), [&](const GradientStep& step) {
             return std::any_of(step.inputs.begin(), step.inputs.end(), reads);
           });
  }
};

// Operators that backward itself applies.
class OperatorLibrary {
 public:
  virtual ~OperatorLibrary() = default;
  virtual Operator& find(const char* name) = 0;
  virtual Params& no_params(Operator& op) = 0;
};

}  // namespace mx::nd
