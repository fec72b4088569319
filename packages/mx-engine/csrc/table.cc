// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <cstring>

#include "bulk.hpp"
#include "engine.hpp"
#include "mx_core/intern.hpp"

namespace mx::engine {
namespace {

Engine& of(void* self) noexcept { return *static_cast<Engine*>(self); }

// Calls body(operation) with an operation of this version: what an older caller does not know is 0.
// A size below 1.0's was never set, which is `refused`; that much memory is there all the same,
// `destroy` included.
template <class Result, class Body>
Result of_this_version(const mx_operation& given, mx_error* error, Result refused, Body&& body) {
  if (given.size >= sizeof(mx_operation)) return body(given);
  if (given.size < MX_OPERATION_SIZE_1_0) {
    if (given.destroy != nullptr) given.destroy(given.argument);
    set_error(error, MX_ERROR_ABI, "[push] size: expected sizeof(mx_operation) of interface 1.0 or later");
    return refused;
  }
  mx_operation whole{};
  std::memcpy(&whole, &given, given.size);
  return body(whole);
}

}  // namespace

void fill_table(mx_engine_api* t, Engine* engine) noexcept {
  t->head = {sizeof(mx_engine_api), MX_ENGINE_MAJOR, MX_ENGINE_MINOR};
  t->self = engine;
  t->retain = [](void* self) { of(self).lifecycle().retain(); };
  t->release = [](void* self) { of(self).lifecycle().release(); };
  t->intern = [](void*, const char* text) { return intern(text); };
  t->new_variable = [](void* self) { return of(self).variables().new_variable(); };
  t->delete_variable = [](void* self, mx_variable* variable, mx_context context,
                          void (*deleter)(void*), void* argument) {
    of(self).variables().delete_variable(variable, context, deleter, argument);
  };
  t->variable_version = [](void* self, mx_variable* variable) {
    return of(self).variables().version(variable);
  };
  t->push = [](void* self, const mx_operation* operation, mx_failure** failure, mx_error* error) {
    return of_this_version(*operation, error, int32_t{MX_ERROR_ABI}, [&](const mx_operation& whole) {
      return of(self).push(whole, failure, error);
    });
  };
  t->complete = [](void* self, mx_completion* done, mx_failure* failure) {
    of(self).scheduler().complete(reinterpret_cast<Block*>(done), failure);
  };
  t->new_operator = [](void* self, const mx_operation* prototype, mx_error* error) {
    return of_this_version(*prototype, error, static_cast<mx_operator*>(nullptr), [&](const mx_operation& whole) {
      return of(self).new_operator(whole, error);
    });
  };
  t->push_operator = [](void* self, mx_operator* op, mx_context context, int32_t priority,
                        mx_failure** failure, mx_error* error) {
    return of(self).push_operator(op, context, priority, failure, error);
  };
  t->delete_operator = [](void*, mx_operator* op) { release(op); };
  t->wait_for_variable = [](void* self, mx_variable* variable, int32_t for_write,
                            int64_t timeout_ns, mx_failure** failure, mx_error* error) {
    return of(self).waiting().wait_for_variable(variable, for_write != 0, timeout_ns, failure, error);
  };
  t->wait_for_variable_while = [](void* self, mx_variable* variable, int32_t for_write,
                                  int64_t interval_ns, mx_go_on_fn go_on, void* argument,
                                  mx_failure** failure, mx_error* error) {
    return of(self).waiting().wait_for_variable_while(variable, for_write != 0, interval_ns, go_on,
                                                      argument, failure, error);
  };
  t->read_variable_while = [](void* self, mx_variable* variable, mx_read_fn read, void* reading, int64_t interval_ns,
                              mx_go_on_fn go_on, void* argument, mx_failure** failure, mx_error* error) {
    return of(self).waiting().read_variable_while(variable, read, reading, interval_ns, go_on, argument, failure,
                                                  error);
  };
  t->wait_for_all = [](void* self, int64_t timeout_ns, mx_failure** failure, mx_error* error) {
    return of(self).waiting().wait_for_all(timeout_ns, failure, error);
  };
  t->variable_failure = [](void* self, mx_variable* variable) {
    return of(self).waiting().failure_of(variable);
  };
  t->variable_ready = [](void* self, mx_variable* variable, int32_t for_write) -> int32_t {
    return of(self).waiting().ready(variable, for_write != 0);
  };
  t->pending = [](void* self) { return of(self).waiting().pending(); };
  t->stop = [](void* self) { of(self).lifecycle().stop(); };
  t->notify_shutdown = [](void* self) { of(self).lifecycle().notify_shutdown(); };
  t->set_workers = [](void* self, int32_t n) -> int32_t { return of(self).scheduler().set_workers(n); };
  t->workers = [](void* self) -> int32_t { return of(self).scheduler().workers(); };
  t->set_bulk_size = [](void*, int32_t n) { return Bulk::of_this_thread().set_size(n); };
  t->set_sink = [](void* self, mx_engine_sink sink, void* argument) {
    of(self).profile().set_sink(sink, argument);
  };
  t->attach_device = [](void* self, const mx_device_api* device, mx_error* error) {
    return of(self).scheduler().attach_device(device, error);
  };
  t->keep_order = [](void* self, mx_context context, int32_t on, mx_error* error) {
    return of(self).scheduler().keep_order(context, on != 0, on == 2, error);
  };
  t->join_noted = [](void* self, mx_context context, mx_variable* const* variables, uint32_t n,
                     mx_variable* const* apart, uint32_t n_apart, mx_variable** joint, mx_error* error) {
    return of(self).scheduler().join_noted(context, {variables, n}, {apart, n_apart}, joint, error);
  };
  t->join_variables = [](void* self, mx_variable* const* variables, uint32_t n, mx_variable** joint, mx_error* error) {
    return of(self).variables().join(variables, n, joint, error);
  };
  t->is_naive = [](void* self) -> int32_t { return of(self).naive(); };
}

}  // namespace mx::engine
