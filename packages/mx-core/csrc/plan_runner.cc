// SPDX-License-Identifier: Apache-2.0
#include "plan_runner.hpp"

#include <algorithm>
#include <new>

#include "tensor_size.hpp"
#include "kernel_table.hpp"
#include "mx_core/failure.hpp"

namespace mx::core {
namespace {

constexpr size_t kAlignment = 64;

using Dynamic = std::vector<std::unique_ptr<DynamicOutput>>;

int32_t alloc_output(const mx_kernel_context* self, uint32_t i, int32_t ndim, const int64_t* shape,
                     mx_tensor* output, mx_error* error) {
  return guarded(error, [&] {
    const auto& dynamic = *static_cast<const Dynamic*>(self->host);
    if (i >= dynamic.size() || dynamic[i] == nullptr) {
      throw Error(MX_ERROR_VALUE, "output " + std::to_string(i) + " has a shape already");
    }
    if (ndim < 0 || ndim > MX_MAX_NDIM) {
      throw Error(MX_ERROR_SHAPE, "output " + std::to_string(i) + ": " + std::to_string(ndim) + " axes");
    }
    DynamicOutput& made = *dynamic[i];
    made.shape.assign(shape, shape + ndim);
    made.bytes = tensor_bytes("alloc_output", made.dtype, made.shape);
    made.memory = allocate(made.bytes);
    *output = {made.memory.get(), made.shape.data(), made.bytes, self->context, made.dtype, ndim, 0};
  });
}

}  // namespace

Memory allocate(size_t bytes) {
  if (bytes > SIZE_MAX - kAlignment) throw std::bad_alloc();
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  Memory memory(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void run_plan(const mx_plan& plan, const std::vector<mx_tensor>& inputs,
              const std::vector<mx_tensor>& outputs, const std::vector<uint8_t>& req,
              const Dynamic& dynamic, const RunOptions& options) {
  check_plan(plan);
  std::vector<Memory> memories;
  std::vector<void*> scratch;
  for (uint32_t i = 0; i < plan.n_scratch; ++i) {
    memories.push_back(allocate(plan.scratch_bytes[i]));
    scratch.push_back(memories.back().get());
  }
  mx_kernel_context context{};
  context.size = sizeof context;
  context.is_train = options.is_train ? 1 : 0;
  context.context = {MX_CPU, 0};
  context.scratch = scratch.data();
  context.scalars = options.scalars.data();
  context.n_scalars = static_cast<uint32_t>(options.scalars.size());
  context.threads = std::max(1u, options.threads);
  context.random_key = options.random_key;
  context.random_offset = options.random_offset;
  context.alloc_output = alloc_output;
  context.host = const_cast<Dynamic*>(&dynamic);
  const auto n_outputs = static_cast<uint32_t>(outputs.size());
  if (const size_t bytes = mx_plan_staging(&plan, req.data(), n_outputs)) {
    memories.push_back(allocate(bytes));
    context.staging = memories.back().get();
  }

  mx_error error{};
  check(plan.run(&plan, &context, inputs.data(), static_cast<uint32_t>(inputs.size()), outputs.data(),
                 req.data(), static_cast<uint32_t>(outputs.size()), &error),
        error);
}

}  // namespace mx::core
