// SPDX-License-Identifier: Apache-2.0
#include "invoke.hpp"

#include "small_vector.hpp"
#include "interpreter_lock.hpp"

namespace mx::nd {
namespace {

// Nearly every operator has fewer tensors.
constexpr size_t kUsual = 8;

[[noreturn]] void refuse_place(const Operator& op, const char* kind, uint32_t i, mx_context there,
                               mx_context here) {
  Runtime& runtime = Runtime::instance();
  throw Error(MX_ERROR_VALUE, "[" + op.name + "] " + kind + " " + std::to_string(i) + " lies on " +
                                  runtime.text(there) + " but the operator runs on " +
                                  runtime.text(here) +
                                  "; bring the arrays together with as_in_context");
}

// An operator runs on one device; cpu(0) and cpu(1) are the same memory.
void check_contexts(const Operator& op, mx_context context, Array* const* inputs, uint32_t n_inputs,
                    Array* const* outputs, uint32_t n_outputs) {
  for (uint32_t i = 1; i < n_inputs; ++i) {
    const mx_context other = inputs[i]->context();
    if (!same_memory(context, other)) refuse_place(op, "input", i, other, context);
  }
  for (uint32_t i = 0; i < n_outputs; ++i) {
    if (outputs[i] == nullptr) continue;
    const mx_context other = outputs[i]->context();
    if (!same_memory(context, other)) refuse_place(op, "output", i, other, context);
  }
}

// Where the first array lies, or where the caller wants to run.
mx_context place_of(const Invocation& invocation) {
  if (invocation.n_inputs != 0) return invocation.inputs[0].array->context();
  for (uint32_t i = 0; i < invocation.n_outputs; ++i) {
    if (invocation.outputs[i] != nullptr) return invocation.outputs[i]->context();
  }
  Runtime::instance().require(invocation.context);
  return invocation.context;
}

// States are written, whoever owns them.
void check_mutated(const Operator& op, const Call& call, Array* const* inputs) {
  for (const uint32_t i : call.mutated) {
    if (!inputs[i]->chunk().read_only()) continue;
    throw Error(MX_ERROR_VALUE, "[" + op.name + "] input " + std::to_string(i) +
                                    " is written, but its memory is read-only; pass a copy");
  }
}

void check_outputs(const Operator& op, const Call& call, const Invocation& invocation) {
  const bool wrong = invocation.outputs_inform ? invocation.n_outputs != call.visible_outputs
                                               : invocation.n_outputs > call.visible_outputs;
  if (invocation.n_outputs != 0 && wrong) {
    throw Error(MX_ERROR_VALUE, "[" + op.name + "] out: expected " +
                                    std::to_string(call.visible_outputs) + " arrays, got " +
                                    std::to_string(invocation.n_outputs));
  }
  if (invocation.req != nullptr && call.dynamic_output) {
    for (uint32_t i = 0; i < invocation.n_outputs; ++i) {
      if (invocation.req[i] == MX_REQ_ADD) {
        throw Error(MX_ERROR_VALUE, "[" + op.name + "] cannot add to outputs of unknown shape");
      }
    }
  }
}

}  // namespace

void invoke(const Invocation& invocation, std::vector<Value>& results) {
  Operator& op = *invocation.op;
  const uint32_t n_inputs = invocation.n_inputs;
  SmallVector<Array*, kUsual> inputs(n_inputs);
  for (uint32_t i = 0; i < n_inputs; ++i) inputs[i] = invocation.inputs[i].array.get();

  const mx_context context = place_of(invocation);
  check_contexts(op, context, inputs.data(), n_inputs, invocation.outputs, invocation.n_outputs);

  const Mode now = mode();
  Signature signature;
  signature.params = invocation.params;
  signature.inputs = inputs.data();
  signature.n_inputs = n_inputs;
  if (invocation.outputs_inform) {
    signature.outputs = invocation.outputs;
    signature.n_outputs = invocation.n_outputs;
  }
  signature.context = context;
  signature.is_train = now.training;
  const Ref<Call> call = op.call(signature);
  check_outputs(op, *call, invocation);
  check_mutated(op, *call, inputs.data());

  const auto n_outputs = static_cast<uint32_t>(call->outputs.size());
  const uint32_t visible = call->visible_outputs;
  SmallVector<Ref<Array>, kUsual> owned(n_outputs);
  SmallVector<Array*, kUsual> outputs(n_outputs);
  SmallVector<uint8_t, kUsual> req(n_outputs);
  for (uint32_t i = 0; i < n_outputs; ++i) {
    req[i] = MX_REQ_WRITE;
    if (i < invocation.n_outputs && invocation.outputs[i] != nullptr) {
      owned[i] = Ref<Array>::share(invocation.outputs[i]);
      if (invocation.req != nullptr) req[i] = invocation.req[i];
    } else if (call->dynamic_output) {
      owned[i] = Array::unshaped(call->context, call->outputs[i].dtype);
    } else {
      owned[i] = Array::create(call->context, call->outputs[i].dtype, call->outputs[i].shape);
      const bool wanted = i >= visible || invocation.wanted == nullptr ||
                          (i < invocation.n_wanted && invocation.wanted[i] != 0);
      if (!wanted) req[i] = MX_REQ_NULL;
    }
    outputs[i] = owned[i].get();
  }

  const double* scalars =
      invocation.scalars != nullptr ? invocation.scalars : invocation.params->scalars.data();
  {
    const WithoutInterpreter without(!call->runs_inline || Runtime::instance().naive());
    push(*call, inputs.data(), n_inputs, outputs.data(), req.data(), n_outputs, scalars,
         call->n_scalars, now.training, now.priority, invocation.origin);
  }
  results.resize(visible);
  for (uint32_t i = 0; i < visible; ++i) results[i] = {owned[i], nullptr, i};
  if (now.recording) {
    record(op, *invocation.params, invocation.inputs, n_inputs, outputs.data(), n_outputs,
           results.data(), visible);
  }
}

namespace {

// The state of one copy between arrays.
struct CopyTask {
  Chunk* from;
  Chunk* to;
  size_t from_offset;
  size_t to_offset;
  size_t bytes;

  static mx_failure* run(void* argument, const mx_run_context* run) {
    auto* task = static_cast<CopyTask*>(argument);
    return failing_or_passing([&] {
      const char* source = static_cast<char*>(task->from->allocate(true)) + task->from_offset;
      char* target = static_cast<char*>(task->to->allocate()) + task->to_offset;
      const mx_context from = task->from->context();
      const mx_context to = task->to->context();
      if (mx_on_host(from) && mx_on_host(to)) {
        std::memmove(target, source, task->bytes);
        return;
      }
      const int32_t type = mx_on_host(from) ? to.type : from.type;
      const mx_device_api* device = Runtime::instance().device(type);
      mx_error error{};
      check(device->copy(device->self, run->stream, target, to, source, from, task->bytes, &error),
            error);
    });
  }
  static void destroy(void* argument) { delete static_cast<CopyTask*>(argument); }
};

}  // namespace

void copy(Array& from, Array& to, const char* origin) {
  if (from.bytes() != to.bytes() || from.dtype() != to.dtype()) {
    throw Error(MX_ERROR_SHAPE, "[copyto] expected shape " + to.shape().text() + ", got " +
                                    from.shape().text());
  }
  if (from.bytes() == 0 || (&from.chunk() == &to.chunk() && from.offset() == to.offset())) return;
  const mx_context source = from.context();
  const mx_context target = to.context();
  const bool from_host = mx_on_host(source);
  const bool to_host = mx_on_host(target);
  // No device knows another kind's memory, and none need copy between places that overlap.
  const bool foreign = !from_host && !to_host && source.type != target.type;
  const bool overlap = !to_host && &from.chunk() == &to.chunk() &&
                       from.offset() < to.offset() + to.bytes() && to.offset() < from.offset() + from.bytes();
  if (foreign || overlap) {
    const mx_context place = foreign ? mx_context{MX_CPU, 0} : target;
    const Ref<Array> between = Array::create(place, from.dtype(), from.shape());
    copy(from, *between, origin);
    copy(*between, to, origin);
    return;
  }
  auto* task =
      new CopyTask{&from.chunk(), &to.chunk(), from.offset(), to.offset(), from.bytes()};
  mx_variable* read = from.variable();
  mx_variable* write = to.variable();
  mx_operation operation{};
  operation.size = sizeof operation;
  operation.context = to_host ? source : target;
  operation.property = same_memory(source, target) ? MX_FN_NORMAL
                       : to_host                   ? MX_FN_COPY_FROM_DEVICE
                                                   : MX_FN_COPY_TO_DEVICE;
  operation.flags = from_host && to_host && from.bytes() <= kInlineBytes ? MX_PUSH_INLINE : 0u;
  operation.priority = mode().priority;
  operation.name = "copyto";
  operation.origin = origin;
  operation.reads = &read;
  operation.writes = &write;
  operation.n_reads = read == write ? 0 : 1;
  operation.n_writes = 1;
  operation.run = &CopyTask::run;
  operation.argument = task;
  operation.destroy = &CopyTask::destroy;
  const mx_engine_api* engine = Runtime::instance().engine();
  const WithoutInterpreter without(operation.flags == 0 || Runtime::instance().naive());
  mx_failure* failure = nullptr;
  mx_error error{};
  check(engine->push(engine->self, &operation, &failure, &error), error);
  if (failure != nullptr) throw FailureError{FailureRef(failure)};
}

}  // namespace mx::nd
