// SPDX-License-Identifier: Apache-2.0
//
// The "invoke" table: how executors use arrays and calls.
#include "table.hpp"

#include "call.hpp"

namespace mx::nd {
namespace {

mx_failure* run(void*, mx_call* call, const mx_run_context* run, const mx_tensor* inputs,
                uint32_t n_inputs, const mx_tensor* outputs, const uint8_t* req,
                uint32_t n_outputs, const double* scalars, uint32_t n_scalars, int32_t is_train,
                uint64_t random_key, uint64_t random_offset) {
  Execution execution;
  execution.inputs = inputs;
  execution.n_inputs = n_inputs;
  execution.outputs = outputs;
  execution.req = req;
  execution.n_outputs = n_outputs;
  if (n_scalars != call->n_scalars) {
    return make_failure(MX_ERROR_VALUE, "a program passed a wrong number of run-time scalars");
  }
  return execute(*call, *run, execution, scalars, n_scalars, is_train != 0, random_key,
                 random_offset, nullptr);
}

mx_invoke_api make_table() {
  mx_invoke_api table{};
  table.head = {sizeof table, MX_INVOKE_MAJOR, MX_INVOKE_MINOR};
  table.array_new = [](void*, mx_context context, int32_t dtype, int32_t ndim,
                       const int64_t* shape, mx_array** array, mx_error* error) {
    return guarded(error, [&] { *array = Array::create(context, dtype, {ndim, shape}).detach(); });
  };
  table.array_view = [](void*, mx_array* base, size_t offset, int32_t dtype, int32_t ndim,
                        const int64_t* shape, mx_array** array, mx_error* error) {
    return guarded(error, [&] { *array = base->view(offset, dtype, {ndim, shape}).detach(); });
  };
  table.array_retain = [](void*, mx_array* array) { array->retain(); };
  table.array_release = [](void*, mx_array* array) { array->release(); };
  table.array_variable = [](void*, mx_array* array) { return array->variable(); };
  table.array_tensor = [](void*, mx_array* array, int32_t allocate, mx_tensor* tensor,
                          mx_error* error) {
    return guarded(error, [&] {
      if (array->pending()) {
        throw Error(MX_ERROR_SHAPE, "[NDArray] the shape is not known before the array is computed");
      }
      const bool whole = array->bytes() == array->chunk().bytes();
      const bool cleared = allocate != 2 || !whole;  // others may read the rest
      void* data = allocate != 0 ? array->allocate(cleared) : array->address();
      *tensor = {data, array->shape().data(), array->bytes(), array->context(), array->dtype(),
                 array->shape().ndim(), 0};
    });
  };
  table.call_retain = [](void*, mx_call* call) { call->retain(); };
  table.call_release = [](void*, mx_call* call) { call->release(); };
  table.call_is_python = [](void*, const mx_call* call) { return call->foreign ? 1 : 0; };
  table.call_name = [](void*, const mx_call* call) { return call->name; };
  table.push = [](void*, mx_call* call, mx_array* const* inputs, uint32_t n_inputs,
                  mx_array* const* outputs, const uint8_t* req, uint32_t n_outputs,
                  const double* scalars, uint32_t n_scalars, int32_t is_train, int32_t priority,
                  mx_error* error) {
    return guarded(error, [&] {
      try {
        push(*call, inputs, n_inputs, outputs, req, n_outputs, scalars, n_scalars, is_train != 0,
             priority, nullptr);
      } catch (const FailureError& failed) {
        throw Error(static_cast<mx_status>(failed.failure.get()->code),
                    failed.failure.get()->message);
      }
    });
  };
  table.run = &run;
  table.call_random_blocks = [](void*, const mx_call* call) { return call->random_blocks; };
  return table;
}

}  // namespace

const mx_invoke_api* invoke_table() noexcept {
  static const mx_invoke_api table = make_table();
  return &table;
}

}  // namespace mx::nd
