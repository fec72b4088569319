// SPDX-License-Identifier: Apache-2.0
//
// A plan (mx.plan.v1) that enqueues kernels, matrix products and graphs of cuDNN one after another on the stream it is
// given.  What each kernel's parameters are is data, so every generator of kernels makes the same plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "blas_lt.hpp"
#include "captured_step.hpp"
#include "library_plan.hpp"
#include "kernel.hpp"
#include "mx_core/plan.hpp"
#include "parameter.hpp"

namespace mx::cuda {

struct Launch {
  std::shared_ptr<Kernel> kernel;
  uint32_t blocks;
  uint32_t threads;
  uint32_t shared_bytes;
  std::vector<Parameter> parameters;
};

// What cuDNN computes.  In a run that it serves the `then` steps that follow are enqueued after it, and the `instead`
// steps after those are not.  In one that it cannot serve it is the other way round: a result is added to what is
// there, and cuDNN has no plan for that; one of several is not wanted, and may not be left out; an address is not
// aligned, or that of two tensors, one of them written.
struct Library {
  std::shared_ptr<const dnn::LibraryPlan> written, added;  // the latter may be null
  std::vector<Parameter> places;   // of the tensors by their ids, the first of which is 1
  std::vector<Parameter> results;  // which outputs are written; with `added`, one
  Parameter workspace;             // scratch, of which the first multiple of kWorkspaceAlignment is used
  size_t then, instead;
};

// What run-time scalars must satisfy: `larger` is at least, or above, `smaller` (-1: zero).
struct Condition {
  uint32_t larger;
  int32_t smaller;
  bool above;
  std::string refusal;
};

// The only output has as many rows as the first steps count: a run waits for them, and asks for its memory then.
struct Counted {
  size_t steps;
  uint32_t scratch;  // the piece that holds the number of rows, int64
  size_t offset;     // bytes from its beginning
  std::vector<int64_t> row;  // the extents of a row
};

// What a plan is made of, besides its signature.
struct LaunchSpec {
  std::string name;  // the operator's
  int32_t gpu;
  std::vector<size_t> scratch;  // bytes of each piece
  uint64_t random_blocks = 0;
  bool adds = true;  // false: a request to add is refused
  std::vector<Condition> conditions;
  std::vector<std::variant<Launch, Product, Library, Finished>> steps;  // empty: there is nothing to compute
  std::optional<Counted> counted = std::nullopt;
  // The first pieces of scratch memory that are there only in runs which a step of cuDNN does not serve.
  size_t spare = 0;
  // Gives products workspaces, and runs the spare pieces if only addresses need them.  Stays as long as the process.
  const mx_storage_api* storage = nullptr;
};

// Throws mx::Error for parameters that refer to what there is not, or a kernel that does not load.
class LaunchPlan final : public Plan, public Capturable {
 public:
  LaunchPlan(Signature signature, LaunchSpec spec);

  const std::string& operation() const override { return spec_.name; }
  bool same_but_numbers(const Capturable& other) const override;

 private:
  void check(const Call& call) const override;
  void check_tensor(const char* what, size_t i, const mx_tensor& given, const Spec& spec) const;
  void check_parameter(const Parameter& p, const std::string& owner) const;
  size_t limit_of(Parameter::Kind kind) const;
  void check_counted();
  void execute(const Call& call) const override;
  // Runs steps from `begin` up to `end`.
  void run_steps(const Gpu& gpu, const Call& call, size_t begin, size_t end, const uint64_t* places) const;
  int64_t counted_rows(const Gpu& gpu, const Call& call) const;
  void wait(const Gpu& gpu, const Call& call) const;
  size_t staging(const uint8_t* req) const override;
  void run_with_spare(const Gpu& gpu, const Call& call, const uint64_t* places) const;
  void* pointer(const Parameter& p, const Call& call) const;
  // `place` of the first number that varies: null where it is given by value.
  void enqueue(const Launch& launch, const Gpu& gpu, const Call& call, const uint64_t* place) const;
  void run_all(const Gpu& gpu, const Call& call, const uint64_t* places) const;
  CapturedStep::Run described(const Call& call) const;
  void enqueue(const Product& product, const Gpu& gpu, const Call& call, bool captured) const;
  void check_step(const Launch& launch, const Gpu& gpu) const;
  void check_step(const Product& product, const Gpu& gpu) const;
  void check_step(const Library& library, const Gpu& gpu) const;
  void check_step(const Finished& finished, const Gpu& gpu) const;
  // Steps after this one.
  size_t steps_after(const void* step) const;
  // Whether each result is requested in the same way; that then is `request`.
  static bool agree(const Library& library, const uint8_t* req, uint8_t* request);
  // The addresses of the tensors of what cuDNN runs; none where it does not take them.
  std::optional<std::vector<void*>> addresses(const Library& library, const dnn::LibraryPlan& plan,
                                              const Call& call) const;
  static const dnn::LibraryPlan* serving(const Library& library, const uint8_t* req);
  // False where the steps in its place are to be enqueued.
  bool enqueue(const Library& library, const Gpu& gpu, const Call& call) const;
  bool enqueue(const Finished& finished, const Gpu& gpu, const Call& call) const;

  const LaunchSpec spec_;
  std::vector<Section> scratch_;      // but the spare pieces
  std::vector<size_t> spare_places_;  // where those begin
  size_t spare_bytes_ = 0;            // of all
  std::vector<size_t> first_number_;  // of each step, of those that vary
};

}  // namespace mx::cuda
