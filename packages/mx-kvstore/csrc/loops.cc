// SPDX-License-Identifier: Apache-2.0
#include "loops.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "mx_core/types.hpp"
#include "sum.hpp"

namespace mx::kv {
namespace {

// Of the targets of a sum: from here on they are written past the caches, which would not hold them anyway.
constexpr int64_t kStreamBytes = 1 << 20;

int64_t elements_of(const mx_tensor& tensor) {
  const size_t size = item_size(tensor.dtype);
  return size == 0 ? 0 : static_cast<int64_t>(tensor.bytes / size);
}

// Refuses an array that the host does not have, or that has another type or size.
void check_array(const Arrays& arrays, size_t i, int32_t dtype, int64_t elements) {
  const mx_tensor tensor = arrays.tensor(i, false);
  if (mx_on_host(tensor.context) == 0) {
    throw Error(MX_ERROR_VALUE, "[KVStore] expected arrays in host memory, got device type " +
                                    std::to_string(tensor.context.type));
  }
  if (tensor.dtype != dtype || elements_of(tensor) != elements) {
    throw Error(MX_ERROR_VALUE, std::string("[KVStore] expected ") + std::to_string(elements) + " elements of " +
                                    type_name(dtype) + ", got " + std::to_string(elements_of(tensor)) + " of " +
                                    type_name(tensor.dtype));
  }
}

bool overlap(const void* a, const void* b, size_t bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y + bytes && y < x + bytes;
}

class Sum final : public Loop {
 public:
  Sum(const mx_invoke_api* invoke, const std::vector<mx_array*>& sources, const std::vector<mx_array*>& targets)
      : sources_(invoke, sources), targets_(invoke, targets) {
    if (sources.empty() || targets.empty()) throw Error(MX_ERROR_VALUE, "[KVStore] a sum of nothing, or to nowhere");
    const mx_tensor like = targets_.tensor(0, false);
    dtype_ = like.dtype;
    bytes_ = like.bytes;
    if (!can_sum(dtype_)) {
      throw Error(MX_ERROR_DTYPE, std::string("[KVStore] no sums of ") + type_name(dtype_));
    }
    for (size_t i = 0; i < sources_.size(); ++i) check_array(sources_, i, dtype_, elements());
    for (size_t i = 0; i < targets_.size(); ++i) check_array(targets_, i, dtype_, elements());
  }

  const Arrays& sources() const noexcept { return sources_; }
  const Arrays& targets() const noexcept { return targets_; }
  int64_t elements() const noexcept { return static_cast<int64_t>(bytes_ / item_size(dtype_)); }
  int64_t bytes() const noexcept { return static_cast<int64_t>(bytes_ * (sources_.size() + targets_.size())); }

  bool begin() override {
    for (size_t i = 0; i < sources_.size(); ++i) from_.push_back(sources_.tensor(i, true).data);
    for (size_t i = 0; i < targets_.size(); ++i) to_.push_back(targets_.tensor(i, true).data);
    for (const void* from : from_) {
      for (const void* to : to_) apart_ = apart_ && (from == to || !overlap(from, to, bytes_));
    }
    return apart_;
  }

  void run(int64_t begin, int64_t end) override {
    if (begin == end) return;
    const bool streaming = static_cast<int64_t>(bytes_) >= kStreamBytes;
    if (apart_) return sum(dtype_, from_, to_, begin, end, streaming);
    // Views of one array that lie askew: what is written would be read.
    const auto between = std::make_unique<char[]>(bytes_);
    sum(dtype_, from_, {between.get()}, begin, end, false);
    sum(dtype_, {between.get()}, to_, begin, end, false);
  }

 private:
  const Arrays sources_, targets_;
  int32_t dtype_ = 0;
  size_t bytes_ = 0;  // of each array
  std::vector<const void*> from_;
  std::vector<void*> to_;
  bool apart_ = true;
};

// A loop over arrays that one function does.
class Over final : public Loop {
 public:
  using Body = std::function<void(int64_t, int64_t)>;

  explicit Over(Body body, std::function<void()> begin) : body_(std::move(body)), begin_(std::move(begin)) {}
  bool begin() override {
    begin_();
    return true;
  }
  void run(int64_t begin, int64_t end) override { body_(begin, end); }

 private:
  const Body body_;
  const std::function<void()> begin_;
};

// The words of the codes of n values.
int64_t words_of(Code code, int64_t n) { return code_bytes(code, n) / 4; }

}  // namespace

void push_sum(const Tables& tables, const std::vector<mx_array*>& sources, const std::vector<mx_array*>& targets,
              int32_t priority) {
  auto loop = std::make_shared<Sum>(tables.invoke, sources, targets);
  const Sum& sum = *loop;
  push(tables, loop, sum.sources(), sum.targets(), {sum.elements(), sum.bytes()}, "kvstore_sum", priority);
}

void push_compress(const Tables& tables, Code code, float threshold, mx_array* gradient, mx_array* residual,
                   mx_array* codes, int32_t priority) {
  struct Memory {
    Memory(const mx_invoke_api* invoke, mx_array* gradient, mx_array* residual, mx_array* codes)
        : reads(invoke, {gradient}), writes(invoke, {residual, codes}) {}
    const Arrays reads, writes;
    const float* gradient = nullptr;
    float* residual = nullptr;
    uint8_t* codes = nullptr;
  };
  auto memory = std::make_shared<Memory>(tables.invoke, gradient, residual, codes);
  const int64_t n = elements_of(memory->reads.tensor(0, false));
  check_array(memory->reads, 0, MX_FLOAT32, n);
  check_array(memory->writes, 0, MX_FLOAT32, n);
  check_array(memory->writes, 1, MX_FLOAT32, words_of(code, n));
  const auto locate = [memory] {
    memory->gradient = static_cast<const float*>(memory->reads.tensor(0, true).data);
    memory->residual = static_cast<float*>(memory->writes.tensor(0, true).data);
    memory->codes = static_cast<uint8_t*>(memory->writes.tensor(1, true).data);
  };
  const auto body = [memory, code, threshold](int64_t begin, int64_t end) {
    if (begin == end) return;
    uint8_t* const to = memory->codes + begin / per_byte(code);
    compress(code, threshold, memory->gradient + begin, memory->residual + begin, to, end - begin);
  };
  push(tables, std::make_shared<Over>(body, locate), memory->reads, memory->writes, {n, 12 * n}, "kvstore_compress",
       priority);
}

void push_expand(const Tables& tables, Code code, float threshold, const std::vector<mx_array*>& codes,
                 mx_array* target, int32_t priority) {
  struct Memory {
    Memory(const mx_invoke_api* invoke, Code code, float threshold, const std::vector<mx_array*>& codes,
           mx_array* target)
        : reads(invoke, codes), writes(invoke, {target}), expander(code, threshold) {}
    const Arrays reads, writes;
    const Expander expander;
    std::vector<const uint8_t*> codes;
    float* target = nullptr;
  };
  auto memory = std::make_shared<Memory>(tables.invoke, code, threshold, codes, target);
  const int64_t n = elements_of(memory->writes.tensor(0, false));
  check_array(memory->writes, 0, MX_FLOAT32, n);
  for (size_t i = 0; i < codes.size(); ++i) check_array(memory->reads, i, MX_FLOAT32, words_of(code, n));
  const auto locate = [memory] {
    for (size_t i = 0; i < memory->reads.size(); ++i) {
      memory->codes.push_back(static_cast<const uint8_t*>(memory->reads.tensor(i, true).data));
    }
    memory->target = static_cast<float*>(memory->writes.tensor(0, true).data);
  };
  const auto body = [memory, code](int64_t begin, int64_t end) {
    constexpr int64_t kTile = 8192;  // elements: stay in the cache while further codes are added
    for (int64_t at = begin; at < end; at += kTile) {
      const int64_t n = std::min(kTile, end - at);
      for (size_t i = 0; i < memory->codes.size(); ++i) {
        memory->expander(memory->codes[i] + at / per_byte(code), memory->target + at, n, i > 0);
      }
    }
  };
  const int64_t bytes = 4 * n + words_of(code, n) * 4 * static_cast<int64_t>(codes.size());
  push(tables, std::make_shared<Over>(body, locate), memory->reads, memory->writes, {n, bytes}, "kvstore_expand",
       priority);
}

}  // namespace mx::kv
