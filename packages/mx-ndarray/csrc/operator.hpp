// SPDX-License-Identifier: Apache-2.0
//
// Operators as the imperative side sees them: parameters with an identity, a
// bounded cache from signatures to prepared calls, gradients as data.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "call.hpp"

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
  std::unique_ptr<Gradient> gradient;  // filled at first use, by one thread at a time

 protected:
  virtual ~Params();
};

// Signature -> call.  Threads: the caller serialises (the bindings hold the GIL).
class SignatureCache {
 public:
  static constexpr size_t kLimit = 4096;  // entries; a full cache starts afresh

  // The key that the next find or insert is about.
  class Key {
   public:
    void add(uint64_t word) {
      words_.push_back(word);
      hash_ = (hash_ ^ word) * 0x9E3779B97F4A7C15ull;
      hash_ ^= hash_ >> 29;
    }
    void clear() noexcept {
      words_.clear();
      hash_ = 0x243F6A8885A308D3ull;
    }
    void add(const Array& array) {
      add((static_cast<uint64_t>(array.dtype()) << 8) | static_cast<uint64_t>(array.shape().ndim()));
      for (int32_t i = 0; i < array.shape().ndim(); ++i) {
        add(static_cast<uint64_t>(array.shape()[i]));
      }
    }

   private:
    friend class SignatureCache;
    std::vector<uint64_t> words_;
    uint64_t hash_ = 0;
  };

  Call* find(const Key& key) const noexcept;
  void insert(const Key& key, Ref<Call> call);
  size_t size() const noexcept { return used_; }
  void clear() noexcept;

 private:
  struct Slot {
    uint64_t hash = 0;
    std::vector<uint64_t> words;
    Ref<Call> call;
  };
  void grow();
  std::vector<Slot> slots_;
  size_t used_ = 0;
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
  // The call for a signature, from the cache or prepared; borrowed.
  Call& call(const Signature& signature);
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
