// SPDX-License-Identifier: Apache-2.0
//
// A graph of operations of cuDNN, and the plan that cuDNN makes of it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "library_plan.hpp"

namespace mx::cuda::dnn {

// How a plan is chosen.
struct Choice {
  size_t workspace;  // bytes at most
  bool converts;     // float32 may be multiplied as TensorFloat-32
};

// cuDNN's number of an element type.  Throws mx::Error, MX_ERROR_UNSUPPORTED for others than float32, float16 and
// bfloat16.
int type_of(int32_t dtype);
// Elements from one index to the next along each axis of (examples, channels, space) in memory; `last`: channels are
// the last axis there.
std::vector<int64_t> strides_of(const std::vector<int64_t>& extents, bool last);

// The descriptors of a graph, and the ids of its tensors.  Threads: one at a time.
class Parts {
 public:
  explicit Parts(const std::string& where) : where_(where) {}

  // A descriptor that lives as long as the parts.
  Descriptor& keep(Kind kind) { return parts_.emplace_back(kind, where_); }
  Descriptor& keep(Descriptor&& made) { return parts_.emplace_back(std::move(made)); }
  void drop_last() { parts_.pop_back(); }
  // A tensor in memory; a run gets its address.
  const Descriptor& tensor(int64_t id, int type, const std::vector<int64_t>& extents, bool last);
  const Descriptor& tensor(int64_t id, int type, const std::vector<int64_t>& extents,
                           const std::vector<int64_t>& strides);
  // One between two operations; in float32 where no type is given.
  const Descriptor& between(int64_t id, const std::vector<int64_t>& extents, bool last);
  const Descriptor& between(int64_t id, int type, const std::vector<int64_t>& extents,
                            const std::vector<int64_t>& strides);
  // A number that all runs get, with as many axes as the tensors have.
  const Descriptor& constant(int64_t id, float value, size_t axes);

  // Operations, in float32.  y = x `mode` b, or `mode` of x where b is null.
  Pointer pointwise(int mode, const Descriptor& x, const Descriptor* b, const Descriptor& y);
  // c = a * b for all but the last two axes.
  Pointer matmul(const Descriptor& a, const Descriptor& b, const Descriptor& c);
  // Sums of x along the axes in which y has the extent 1.
  Pointer sum(const Descriptor& x, const Descriptor& y);
  // The elements of x with the strides, or the type, of y.
  Pointer reshape(const Descriptor& x, const Descriptor& y);

  const std::vector<int64_t>& ids() const noexcept { return ids_; }
  // Those of the numbers.
  const std::vector<int64_t>& constant_ids() const noexcept { return constant_ids_; }
  const std::deque<float>& constants() const noexcept { return constants_; }

 private:
  Descriptor& described(int64_t id, int type, const std::vector<int64_t>& extents,
                        const std::vector<int64_t>& strides);

  const std::string where_;
  std::deque<Descriptor> parts_;
  std::vector<int64_t> ids_, constant_ids_;
  std::deque<float> constants_;  // whose addresses stay
};

// An execution plan of cuDNN.  Immutable.  Threads: any.
class GraphPlan : public LibraryPlan {
 public:
  int64_t engine() const noexcept { return engine_; }
  int64_t passed_over() const noexcept { return passed_over_; }  // engines that cuDNN named before it
  const std::vector<int64_t>& ids() const noexcept override { return parts_.ids(); }

  void run(const Gpu& gpu, Stream stream, const std::vector<void*>& pointers, void* workspace,
           const std::string& where) const override;

 protected:
  // The operations of a graph.
  using Build = std::function<std::vector<Pointer>(Parts& parts)>;

  // Of the first engine, in cuDNN's order, that adds up in a fixed order, in the precision that is chosen, and fits
  // into the workspace.  Throws mx::Error, MX_ERROR_UNSUPPORTED where there is none.
  //
  // `dtype`: of the data; `gpu`: whose context is current; or null, and `properties` describe a GPU (cuDNN's JSON):
  // such a plan is not run.
  GraphPlan(const std::string& where, int32_t dtype, const Choice& choice, const Gpu* gpu,
            const std::string& properties, const Build& build);

 private:
  // Whether this engine serves, which then is the plan's.
  bool take(const Descriptor& config, const Choice& choice, Handle handle, const Descriptor* properties);
  bool allowed(const Descriptor& engine, const Choice& choice) const;

  const std::string where_;
  const int32_t dtype_;
  Parts parts_;
  const Descriptor* plan_ = nullptr;
  int64_t engine_ = -1, passed_over_ = 0;
  std::string refusal_;  // of the last engine that did not serve
};

}  // namespace mx::cuda::dnn
