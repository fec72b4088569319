// SPDX-License-Identifier: Apache-2.0
//
// How a call becomes an engine operation.
#include <algorithm>
#include <new>

#include "call.hpp"
#include "small_vector.hpp"
#include "workspace.hpp"

namespace mx::nd {
namespace {

enum class Alias : uint8_t { kNone, kBuffered };

// One pushed call.  Lives in one allocation with its arrays.  Chunks are borrowed, because the
// engine frees them after everything that was pushed on them; but a foreign kernel may keep views
// longer, so for it they are shared.  What the operation names no variable of may be gone when it
// runs, so it is not borrowed at all.
class Task final : DynamicOutputs {
 public:
  struct Slot {
    Chunk* chunk;  // may be NULL
    size_t offset;
  };

  static Task* create(Call& call, Array* const* inputs, uint32_t n_inputs, Array* const* outputs,
                      const uint8_t* req, uint32_t n_outputs, const double* scalars,
                      uint32_t n_scalars, bool is_train) {
    const size_t tensors = size_t{n_inputs} + n_outputs;
    const size_t bytes = sizeof(Task) + tensors * sizeof(Slot) + n_scalars * sizeof(double) +
                         (call.dynamic_output ? n_outputs * sizeof(Array*) : 0) + 2 * n_outputs;
    void* memory = ::operator new(bytes);
    auto* task = new (memory) Task(call, n_inputs, n_outputs, n_scalars, is_train);
    Slot* slots = task->slots();
    const auto slot = [&](const Array& array, bool ordered) {
      return Slot{ordered || call.foreign ? &array.chunk() : nullptr, array.offset()};
    };
    for (uint32_t i = 0; i < n_inputs; ++i) {
      slots[i] = slot(*inputs[i], call.reads(i) || call.is_mutated(i));
    }
    for (uint32_t i = 0; i < n_outputs; ++i) {
      task->req()[i] = req == nullptr ? static_cast<uint8_t>(MX_REQ_WRITE) : req[i];
      slots[n_inputs + i] = slot(*outputs[i], task->req()[i] != MX_REQ_NULL);
      task->alias()[i] = static_cast<uint8_t>(Alias::kNone);
      if (call.dynamic_output) {
        task->arrays()[i] = outputs[i];
        outputs[i]->retain();
      }
    }
    std::copy(scalars, scalars + n_scalars, task->scalars());
    if (call.foreign) {
      for (size_t i = 0; i < tensors; ++i) slots[i].chunk->retain();
    }
    return task;
  }

  uint8_t* req() noexcept { return bytes_(); }
  uint8_t* alias() noexcept { return bytes_() + n_outputs_; }
  void reserve_random(mx_context context, uint64_t blocks) {
    const mx_resource_api* random = Runtime::instance().random(context.type);
    random->reserve_random(random->self, context, blocks, &random_key_, &random_offset_);
  }

  static mx_failure* run(void* argument, const mx_run_context* context) {
    return static_cast<Task*>(argument)->run(*context);
  }
  static void destroy(void* argument) {
    auto* task = static_cast<Task*>(argument);
    task->~Task();
    ::operator delete(task);
  }

 private:
  Task(Call& call, uint32_t n_inputs, uint32_t n_outputs, uint32_t n_scalars, bool is_train)
      : call_(Ref<Call>::share(&call)), n_inputs_(n_inputs), n_outputs_(n_outputs),
        n_scalars_(n_scalars), is_train_(is_train) {}
  ~Task() override {
    if (call_->foreign) {
      for (uint32_t i = 0; i < n_inputs_ + n_outputs_; ++i) slots()[i].chunk->release();
    }
    if (call_->dynamic_output) {
      for (uint32_t i = 0; i < n_outputs_; ++i) arrays()[i]->release();
    }
  }

  Slot* slots() noexcept { return reinterpret_cast<Slot*>(this + 1); }
  double* scalars() noexcept {
    return reinterpret_cast<double*>(slots() + n_inputs_ + n_outputs_);
  }
  Array** arrays() noexcept { return reinterpret_cast<Array**>(scalars() + n_scalars_); }
  uint8_t* bytes_() noexcept {
    return reinterpret_cast<uint8_t*>(arrays() + (call_->dynamic_output ? n_outputs_ : 0));
  }

  static mx_tensor describe(const TensorSpec& spec, void* data, mx_context context) noexcept {
    return {data, spec.shape.data(), spec.bytes, context, spec.dtype, spec.shape.ndim(),
            spec.layout};
  }
  mx_context where(const Slot& slot) const noexcept {
    return slot.chunk != nullptr ? slot.chunk->context() : call_->context;
  }
  static void* memory(const Slot& slot, size_t bytes, bool zero) {
    if (bytes == 0) return nullptr;
    return static_cast<char*>(slot.chunk->allocate(zero)) + slot.offset;
  }

  mx_failure* run(const mx_run_context& context) noexcept {
    mx_failure* failure = nullptr;
    mx_failure* setup = failing_or_passing([&] { failure = run_checked(context); });
    return setup != nullptr ? setup : failure;
  }

  mx_failure* run_checked(const mx_run_context& context) {
    const Call& call = *call_;
    const size_t tensors_count = size_t{n_inputs_} + n_outputs_;
    SmallVector<mx_tensor, 8> tensors(tensors_count);
    SmallVector<Chunk*, 8> owners(tensors_count);
    SmallVector<uint8_t, 8> req_now(n_outputs_);
    for (uint32_t i = 0; i < n_inputs_; ++i) {
      const Slot& slot = slots()[i];
      owners[i] = slot.chunk;
      void* data = call.reads(i) ? memory(slot, call.inputs[i].bytes, true) : nullptr;
      tensors[i] = describe(call.inputs[i], data, where(slot));
    }
    bool buffered = false;
    for (uint32_t i = 0; i < n_outputs_; ++i) {
      const Slot& slot = slots()[n_inputs_ + i];
      const TensorSpec& spec = call.outputs[i];
      req_now[i] = req()[i];
      owners[n_inputs_ + i] = slot.chunk;
      if (alias()[i] == static_cast<uint8_t>(Alias::kBuffered)) buffered = true;
      void* data = call.dynamic_output || req_now[i] == MX_REQ_NULL
                       ? nullptr
                       : memory(slot, spec.bytes, req_now[i] == MX_REQ_ADD);
      tensors[n_inputs_ + i] = describe(spec, data, where(slot));
    }
    Execution execution;
    execution.inputs = tensors.data();
    execution.n_inputs = n_inputs_;
    execution.outputs = tensors.data() + n_inputs_;
    execution.req = req_now.data();
    execution.n_outputs = n_outputs_;
    execution.owners = owners.data();
    if (buffered) return run_buffered(context, execution, tensors.data() + n_inputs_, owners.data());
    return launch(context, execution);
  }

  mx_failure* launch(const mx_run_context& context, const Execution& execution) noexcept {
    return execute(*call_, context, execution, scalars(), n_scalars_, is_train_, random_key_,
                   random_offset_, call_->dynamic_output ? this : nullptr);
  }

  // An output that shares memory with an input in a way the kernel was not told about is computed
  // aside and copied.
  mx_failure* run_buffered(const mx_run_context& context, const Execution& execution,
                           mx_tensor* outputs, Chunk** owners) {
    Workspace workspace(call_->context, context.stream, n_outputs_);
    std::vector<void*> targets(n_outputs_, nullptr);
    for (uint32_t i = 0; i < n_outputs_; ++i) {
      if (alias()[i] != static_cast<uint8_t>(Alias::kBuffered) || outputs[i].bytes == 0) continue;
      targets[i] = outputs[i].data;
      outputs[i].data = workspace.take(outputs[i].bytes, "aliased output");
      if (req()[i] == MX_REQ_ADD) copy_bytes(context, outputs[i].data, targets[i], outputs[i]);
      owners[n_inputs_ + i] = nullptr;
    }
    mx_failure* failure = launch(context, execution);
    if (failure != nullptr) return failure;
    for (uint32_t i = 0; i < n_outputs_; ++i) {
      if (targets[i] != nullptr) copy_bytes(context, targets[i], outputs[i].data, outputs[i]);
    }
    return nullptr;
  }

  static void copy_bytes(const mx_run_context& context, void* to, const void* from,
                         const mx_tensor& like) {
    if (mx_on_host(like.context)) {
      std::memcpy(to, from, like.bytes);
      return;
    }
    const mx_device_api* device = Runtime::instance().device(like.context.type);
    mx_error error{};
    check(device->copy(device->self, context.stream, to, like.context, from, like.context,
                       like.bytes, &error),
          error);
  }

  void allocate(uint32_t i, Shape shape, mx_tensor* tensor) override {
    if (i >= n_outputs_) {
      throw Error(MX_ERROR_INDEX, std::string("[") + call_->name + "] output " + std::to_string(i) +
                                      " of " + std::to_string(n_outputs_));
    }
    Array* array = arrays()[i];
    if (!array->pending()) {
      if (array->shape() != shape) {
        throw Error(MX_ERROR_SHAPE, std::string("[") + call_->name + "] output " +
                                        std::to_string(i) + ": expected shape " +
                                        array->shape().text() + ", got " + shape.text());
      }
    } else {
      array->set_shape(std::move(shape));
    }
    *tensor = {array->allocate(), array->shape().data(), array->bytes(), array->context(),
               array->dtype(), array->shape().ndim(), 0};
  }

  Ref<Call> call_;
  uint32_t n_inputs_;
  uint32_t n_outputs_;
  uint32_t n_scalars_;
  bool is_train_;
  uint64_t random_key_ = 0;
  uint64_t random_offset_ = 0;
};

[[noreturn]] void refuse(const Call& call, const char* kind, uint32_t i, const TensorSpec& spec,
                         const Array& array) {
  throw Error(MX_ERROR_SHAPE, std::string("[") + call.name + "] " + kind + " " + std::to_string(i) +
                                  ": expected shape " + spec.shape.text() + " of type code " +
                                  std::to_string(spec.dtype) + ", got " + array.shape().text() +
                                  " of type code " + std::to_string(array.dtype()));
}

// A call may be pushed from outside with any arrays: memory safety depends on this.
void validate(const Call& call, Array* const* inputs, uint32_t n_inputs, Array* const* outputs,
              uint32_t n_outputs, uint32_t n_scalars) {
  if (n_inputs != call.inputs.size() || n_outputs != call.outputs.size() ||
      n_scalars != call.n_scalars) {
    throw Error(MX_ERROR_VALUE,
                std::string("[") + call.name + "] expected " + std::to_string(call.inputs.size()) +
                    " inputs, " + std::to_string(call.outputs.size()) + " outputs, " +
                    std::to_string(call.n_scalars) + " scalars, got " + std::to_string(n_inputs) +
                    ", " + std::to_string(n_outputs) + ", " + std::to_string(n_scalars));
  }
  for (uint32_t i = 0; i < n_inputs; ++i) {
    if (inputs[i]->pending() || inputs[i]->bytes() != call.inputs[i].bytes ||
        inputs[i]->dtype() != call.inputs[i].dtype) {
      refuse(call, "input", i, call.inputs[i], *inputs[i]);
    }
  }
  for (uint32_t i = 0; i < n_outputs; ++i) {
    // How large a dynamic output is, its kernel says when it asks for the memory.
    const bool sized = call.dynamic_output || outputs[i]->bytes() == call.outputs[i].bytes;
    if (!sized || outputs[i]->dtype() != call.outputs[i].dtype) {
      refuse(call, "output", i, call.outputs[i], *outputs[i]);
    }
  }
}

// Decides per output whether it may be computed where it is.
void resolve_aliases(const Call& call, Array* const* inputs, uint32_t n_inputs,
                     Array* const* outputs, uint32_t n_outputs, Task& task) {
  for (uint32_t o = 0; o < n_outputs; ++o) {
    if (task.req()[o] == MX_REQ_NULL || task.req()[o] == MX_REQ_INPLACE) continue;
    bool shared = false;
    bool permitted = task.req()[o] == MX_REQ_WRITE;
    for (uint32_t i = 0; i < n_inputs; ++i) {
      if (!call.reads(i) || !inputs[i]->overlaps(*outputs[o])) continue;
      shared = true;
      const bool same = inputs[i]->offset() == outputs[o]->offset() &&
                        inputs[i]->bytes() == outputs[o]->bytes();
      const std::pair<uint32_t, uint32_t> pair{i, o};
      permitted = permitted && same &&
                  std::find(call.inplace.begin(), call.inplace.end(), pair) != call.inplace.end();
    }
    if (!shared) continue;
    if (permitted) {
      task.req()[o] = MX_REQ_INPLACE;
    } else {
      task.alias()[o] = static_cast<uint8_t>(Alias::kBuffered);
    }
  }
}

bool contains(mx_variable* const* list, uint32_t n, const mx_variable* variable) noexcept {
  return std::find(list, list + n, variable) != list + n;
}

struct Deleter {
  void operator()(Task* task) const noexcept { Task::destroy(task); }
};

}  // namespace

void push(Call& call, Array* const* inputs, uint32_t n_inputs, Array* const* outputs,
          const uint8_t* req, uint32_t n_outputs, const double* scalars, uint32_t n_scalars,
          bool is_train, int32_t priority, const char* origin) {
  validate(call, inputs, n_inputs, outputs, n_outputs, n_scalars);
  std::unique_ptr<Task, Deleter> task(Task::create(call, inputs, n_inputs, outputs, req, n_outputs,
                                                   scalars, n_scalars, is_train));
  resolve_aliases(call, inputs, n_inputs, outputs, n_outputs, *task);
  if (call.random_blocks != 0) task->reserve_random(call.context, call.random_blocks);

  const size_t most = size_t{n_inputs} + n_outputs;
  SmallVector<mx_variable*, 16> reads(most);
  SmallVector<mx_variable*, 16> writes(most);
  uint32_t n_reads = 0;
  uint32_t n_writes = 0;
  const auto add = [](SmallVector<mx_variable*, 16>& list, uint32_t& n, mx_variable* variable) {
    if (!contains(list.data(), n, variable)) list[n++] = variable;
  };
  for (uint32_t i = 0; i < n_outputs; ++i) {
    if (task->req()[i] != MX_REQ_NULL) add(writes, n_writes, outputs[i]->variable());
  }
  for (const uint32_t i : call.mutated) add(writes, n_writes, inputs[i]->variable());
  for (uint32_t i = 0; i < n_inputs; ++i) {
    if (!call.reads(i)) continue;
    mx_variable* variable = inputs[i]->variable();
    if (!contains(writes.data(), n_writes, variable)) add(reads, n_reads, variable);
  }
  if (n_writes == 0) return;  // nobody would see what it computes

  mx_operation operation{};
  operation.size = sizeof operation;
  operation.flags = call.push_flags;
  operation.context = call.context;
  operation.property = MX_FN_NORMAL;
  operation.priority = priority;
  operation.name = call.name;
  operation.origin = origin;
  operation.reads = reads.data();
  operation.writes = writes.data();
  operation.n_reads = n_reads;
  operation.n_writes = n_writes;
  operation.run = &Task::run;
  operation.argument = task.release();
  operation.destroy = &Task::destroy;
  const mx_engine_api* engine = Runtime::instance().engine();
  mx_failure* failure = nullptr;
  mx_error error{};
  check(engine->push(engine->self, &operation, &failure, &error), error);
  if (failure != nullptr) throw FailureError{FailureRef(failure)};
}

}  // namespace mx::nd
