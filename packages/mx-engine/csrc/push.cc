// SPDX-License-Identifier: Apache-2.0
//
// The making of an engine, and pushing: an operation is checked, becomes a block, and takes its places
// at its variables.
#include "engine.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "bulk.hpp"
#include "device.hpp"
#include "frame.hpp"
#include "lock_order.hpp"
#include "placed_operation.hpp"
#include "refusal.hpp"
#include "table.hpp"

namespace mx::engine {
namespace {

int32_t refuse(const mx_operation& operation, mx_error* error, mx_status code, const char* text) {
  refused(operation.name, error, code, text);
  if (operation.destroy != nullptr) operation.destroy(operation.argument);
  return code;
}

// What is wrong with the operation, its variables aside, or NULL.
const char* fault(const mx_operation& operation) noexcept {
  if ((operation.run == nullptr) == (operation.run_async == nullptr)) {
    return "expected exactly one of run and run_async to be set";
  }
  if (operation.property < MX_FN_NORMAL || operation.property > MX_FN_NO_SKIP) {
    return "expected a property of mx_fn_property";
  }
  if (operation.property == MX_FN_DELETE_VARIABLE) {
    return "expected another property; variables are deleted with delete_variable";
  }
  return nullptr;
}

Variable* listed_twice(const mx_operation& operation) {
  return LockOrder(operation.reads, operation.n_reads, operation.writes, operation.n_writes).duplicate();
}

const char* duplicate_text(const mx_operation& operation, const Variable* twice) noexcept {
  const auto count = [twice](Variable* const* list, uint32_t n) {
    return std::count(list, list + n, twice);
  };
  if (count(operation.reads, operation.n_reads) == 0) {
    return "expected distinct variables, got one that is listed twice among the writes";
  }
  if (count(operation.writes, operation.n_writes) == 0) {
    return "expected distinct variables, got one that is listed twice among the reads";
  }
  return "expected distinct variables, got one that is both read and mutated; list it among the "
         "writes only";
}

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      monitor_(options_.debug ? new Monitor : nullptr),
      admission_(options_.sleep, !options_.naive),
      variables_(admission_, monitor_.get()),
      completion_(admission_, variables_, profile_, monitor_.get(), options_.naive, options_.sticky),
      scheduler_(options_, variables_, completion_, profile_, monitor_.get()),
      waiting_(admission_, variables_, completion_, scheduler_, monitor_.get()),
      lifecycle_(this, admission_, variables_, completion_, scheduler_, waiting_, profile_, monitor_.get()) {
  fill_table(&table_, this);
}

// Counts an operation as pending.  A thread that is far ahead hands over what it holds back first, and
// waits until less is pending.
int32_t Engine::admit(mx_error* error) noexcept {
  if (admission_.due() && admission_.ahead(true)) {
    Bulk::flush_all(&scheduler_);
    admission_.hold_back(true);
  }
  return admission_.enter(false, error);
}

int32_t Engine::check_writes(const mx_operation& operation, mx_error* error) noexcept {
  const std::string text = monitor_->undeclared_write(operation.writes, operation.n_writes);
  return text.empty() ? int32_t{MX_OK} : refused(operation.name, error, MX_ERROR, text.c_str());
}

// An operation that is checked takes its places; `op` is whose push it is, or NULL.
int32_t Engine::enter(const mx_operation& operation, Operator* op, Stream* stream, mx_failure** failure,
                      mx_error* error) {
  int32_t status = monitor_ == nullptr ? int32_t{MX_OK} : check_writes(operation, error);
  if (status == MX_OK && variables_.any_lost()) status = variables_.check_lost(operation, error);
  if (status == MX_OK) status = admit(error);
  if (status != MX_OK) return status;
  try {
    // what an operation pushes may be what it waits for: it takes no turn
    Variable* turn = stream == nullptr || Frame::any() ? nullptr : stream->turn(operation);
    for (;;) {
      const PlacedOperation placed(operation, turn);
      const LockOrder order(placed->reads, placed->n_reads, placed->writes, placed->n_writes);
      Variable* twice = op != nullptr ? nullptr : placed.joined() ? listed_twice(operation) : order.duplicate();
      if (twice != nullptr) {
        admission_.leave();
        return refused(operation.name, error, MX_ERROR_VALUE, duplicate_text(operation, twice));
      }
      Block* block = make_block(*placed);
      block->pushed = profile_.on() ? now_ns() : 0;
      block->reusable = op;
      block->stream = stream;
      if (op != nullptr) op->references.fetch_add(1, std::memory_order_relaxed);
      if (scheduler_.enqueue(block, order, failure)) break;
      if (op != nullptr) release(op);
      free_block(block);
    }
  } catch (const std::bad_alloc&) {
    admission_.leave();
    return refused(operation.name, error, MX_ERROR_MEMORY, "out of host memory");
  }
  if (admission_.exiting()) lifecycle_.finish_before_exit();
  return MX_OK;
}

int32_t Engine::push(const mx_operation& operation, mx_failure** failure, mx_error* error) {
  if (failure != nullptr) *failure = nullptr;
  if (const char* text = fault(operation)) return refuse(operation, error, MX_ERROR_VALUE, text);
  Stream* stream = nullptr;
  int32_t status = MX_OK;
  if (!mx_on_host(operation.context)) {
    status = scheduler_.find_stream(operation.context, operation, &stream, error);
  }
  if (status == MX_OK) status = enter(operation, nullptr, stream, failure, error);
  if (status != MX_OK && operation.destroy != nullptr) operation.destroy(operation.argument);
  return status;
}

Operator* Engine::new_operator(const mx_operation& prototype, mx_error* error) noexcept {
  if (const char* text = fault(prototype)) {
    refuse(prototype, error, MX_ERROR_VALUE, text);
    return nullptr;
  }
  try {
    if (Variable* twice = listed_twice(prototype)) {
      refuse(prototype, error, MX_ERROR_VALUE, duplicate_text(prototype, twice));
      return nullptr;
    }
    auto op = std::make_unique<Operator>();
    op->variables.assign(prototype.reads, prototype.reads + prototype.n_reads);
    op->variables.insert(op->variables.end(), prototype.writes,
                         prototype.writes + prototype.n_writes);
    op->prototype = prototype;
    op->prototype.reads = op->variables.data();
    op->prototype.writes = op->variables.data() + prototype.n_reads;
    return op.release();
  } catch (const std::bad_alloc&) {
    refuse(prototype, error, MX_ERROR_MEMORY, "out of host memory");
    return nullptr;
  }
}

int32_t Engine::push_operator(Operator* op, mx_context context, int32_t priority,
                              mx_failure** failure, mx_error* error) {
  if (failure != nullptr) *failure = nullptr;
  mx_operation operation = op->prototype;
  operation.context = context;
  operation.priority = priority;
  operation.destroy = nullptr;  // the operator's argument goes with the operator
  Stream* stream = nullptr;
  if (!mx_on_host(context)) {
    if (const int32_t status = scheduler_.find_stream(context, operation, &stream, error)) return status;
  }
  return enter(operation, op, stream, failure, error);
}

}  // namespace mx::engine
