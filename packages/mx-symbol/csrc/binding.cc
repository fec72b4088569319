// SPDX-License-Identifier: Apache-2.0
#include "binding.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>

namespace mx::symbol {

// One push of one segment; used again and again, so that a push allocates nothing.
struct Binding::Job {
  std::shared_ptr<Binding> binding;  // while it is pending
  uint32_t segment = 0;
  uint64_t random_key = 0;
  uint64_t random_offset = 0;

  static mx_failure* run(void* argument, const mx_run_context* context) {
    const auto* job = static_cast<const Job*>(argument);
    return job->binding->run_segment(*job, *context);
  }
  static void destroy(void* argument) {
    std::unique_ptr<Job> job(static_cast<Job*>(argument));
    const std::shared_ptr<Binding> binding = std::move(job->binding);
    const std::lock_guard<std::mutex> lock(binding->jobs_mutex_);
    binding->idle_jobs_.push_back(std::move(job));  // there is room: see take_job
  }
};

std::unique_ptr<Binding::Job> Binding::take_job() {
  const std::lock_guard<std::mutex> lock(jobs_mutex_);
  if (idle_jobs_.empty()) {
    idle_jobs_.reserve(++n_jobs_);
    return std::make_unique<Job>();
  }
  std::unique_ptr<Job> job = std::move(idle_jobs_.back());
  idle_jobs_.pop_back();
  return job;
}

Binding::Binding(std::shared_ptr<const Program> program, const std::vector<mx_array*>& arrays,
                 std::shared_ptr<Memo> memo)
    : program_(std::move(program)), arrays_(arrays), memo_(std::move(memo)) {
  if (!program_->sealed()) throw Error(MX_ERROR_VALUE, "[Program] is not sealed");
  if (memo_ == nullptr) memo_ = std::make_shared<Memo>(*program_);
  check_arrays();
  steps_.reserve(program_->nodes().size());
  for (const Node& node : program_->nodes()) {
    Step step;
    step.inputs.reserve(node.inputs.size());
    step.outputs.reserve(node.outputs.size());
    for (const uint32_t slot : node.inputs) step.inputs.push_back(describe(slot));
    for (const uint32_t slot : node.outputs) step.outputs.push_back(describe(slot));
    steps_.push_back(std::move(step));
  }
  segments_.reserve(program_->segments().size());
  for (const Segment& segment : program_->segments()) bind_segment(segment);
  const mx_invoke_api* invoke = program_->tables().invoke;
  for (mx_array* array : arrays_) invoke->array_retain(invoke->self, array);
}

Binding::~Binding() {
  const mx_invoke_api* invoke = program_->tables().invoke;
  for (mx_array* array : arrays_) invoke->array_release(invoke->self, array);
}

void Binding::check_arrays() const {
  const std::vector<size_t>& wanted = program_->array_bytes();
  if (arrays_.size() != wanted.size()) {
    throw Error(MX_ERROR_VALUE, "[Program] expected " + std::to_string(wanted.size()) +
                                    " arrays, got " + std::to_string(arrays_.size()));
  }
  const mx_invoke_api* invoke = program_->tables().invoke;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    mx_tensor whole{};
    mx_error error{};
    check(invoke->array_tensor(invoke->self, arrays_[i], 0, &whole, &error), error);
    if (whole.bytes < wanted[i]) {
      throw Error(MX_ERROR_SHAPE, "[Program] array " + std::to_string(i) + ": expected " +
                                      std::to_string(wanted[i]) + " bytes, got " +
                                      std::to_string(whole.bytes));
    }
  }
}

mx_tensor Binding::describe(uint32_t index) const {
  const Slot& slot = program_->slots()[index];
  return {nullptr, slot.shape.data(), slot.bytes, program_->context(), slot.dtype,
          static_cast<int32_t>(slot.shape.size()), 0};
}

// Arrays may share a variable (views of one chunk); the engine wants each variable once.
void Binding::bind_segment(const Segment& segment) {
  const mx_invoke_api* invoke = program_->tables().invoke;
  const auto variables = [&](const std::vector<uint32_t>& arrays) {
    std::vector<mx_variable*> list;
    list.reserve(arrays.size());
    for (const uint32_t array : arrays) {
      list.push_back(invoke->array_variable(invoke->self, arrays_[array]));
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  };
  Bound bound;
  bound.writes = variables(segment.writes);
  const std::vector<mx_variable*> read = variables(segment.reads);
  std::set_difference(read.begin(), read.end(), bound.writes.begin(), bound.writes.end(),
                      std::back_inserter(bound.reads));
  for (const std::vector<uint32_t>* list : {&segment.writes, &segment.reads}) {
    for (const uint32_t array : *list) bound.memory.push_back({array, nullptr});
  }
  segments_.push_back(std::move(bound));
}

void Binding::push(uint32_t part, int32_t priority) {
  const Part& range = program_->part(part);
  for (uint32_t i = range.begin; i < range.end; ++i) push_segment(i, priority);
}

void Binding::push_segment(uint32_t index, int32_t priority) {
  const Segment& segment = program_->segments()[index];
  const Bound& bound = segments_[index];
  if (bound.writes.empty()) return;  // nobody would see what it computes
  const Tables& tables = program_->tables();
  std::unique_ptr<Job> job = take_job();
  job->binding = shared_from_this();
  job->segment = index;
  if (segment.random_blocks != 0) {
    tables.random->reserve_random(tables.random->self, program_->context(), segment.random_blocks,
                                  &job->random_key, &job->random_offset);
  }
  mx_operation operation{};
  operation.size = sizeof operation;
  const bool brief = segment.microseconds < kInlineMicroseconds;
  operation.flags = segment.python ? MX_PUSH_PYTHON : brief ? MX_PUSH_INLINE : MX_PUSH_PARALLEL;
  operation.context = program_->context();
  operation.property = MX_FN_NORMAL;
  operation.priority = priority;
  operation.name = program_->name();
  operation.reads = bound.reads.data();
  operation.writes = bound.writes.data();
  operation.n_reads = static_cast<uint32_t>(bound.reads.size());
  operation.n_writes = static_cast<uint32_t>(bound.writes.size());
  operation.run = &Job::run;
  operation.argument = job.release();
  operation.destroy = &Job::destroy;
  mx_failure* failure = nullptr;
  mx_error error{};
  check(tables.engine->push(tables.engine->self, &operation, &failure, &error), error);
  if (failure != nullptr) throw FailureError{FailureRef(failure)};
}

// Writes the addresses of a segment's arrays into its tensors, where they have changed.
void Binding::locate(uint32_t index) {
  const mx_invoke_api* invoke = program_->tables().invoke;
  bool moved = false;
  for (Memory& memory : segments_[index].memory) {
    mx_tensor whole{};
    mx_error error{};
    check(invoke->array_tensor(invoke->self, arrays_[memory.array], 1, &whole, &error), error);
    moved = moved || whole.data != memory.address;
    memory.address = whole.data;
  }
  if (!moved) return;
  std::vector<void*> known(arrays_.size(), nullptr);
  for (const Memory& memory : segments_[index].memory) known[memory.array] = memory.address;
  const auto address = [&](uint32_t number) -> void* {
    const Slot& slot = program_->slots()[number];
    if (slot.array == kNoArray || known[slot.array] == nullptr) return nullptr;
    return static_cast<char*>(known[slot.array]) + slot.offset;
  };
  const Segment& segment = program_->segments()[index];
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    const Node& node = program_->nodes()[i];
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      steps_[i].inputs[k].data = address(node.inputs[k]);
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      steps_[i].outputs[k].data = address(node.outputs[k]);
    }
  }
}

// What a prepared segment's results depend on, as it is now; nobody writes it meanwhile.
Memo::Stamp Binding::stamp(uint32_t segment, size_t position) const {
  const Tables& tables = program_->tables();
  const Memory& memory = segments_[segment].memory[position];
  mx_array* array = arrays_[memory.array];
  if (position < program_->segments()[segment].writes.size()) return {array, memory.address, 0};
  mx_variable* variable = tables.invoke->array_variable(tables.invoke->self, array);
  return {array, memory.address, tables.engine->variable_version(tables.engine->self, variable)};
}

bool Binding::is_current(uint32_t segment) const {
  const std::vector<Memo::Stamp>& known = memo_->stamps(segment);
  const size_t n = segments_[segment].memory.size();
  if (known.size() != n) return false;
  for (size_t i = 0; i < n; ++i) {
    if (!(known[i] == stamp(segment, i))) return false;
  }
  return true;
}

void Binding::remember(uint32_t segment) {
  std::vector<Memo::Stamp> now;
  for (size_t i = 0; i < segments_[segment].memory.size(); ++i) now.push_back(stamp(segment, i));
  memo_->record(segment, std::move(now));
}

mx_failure* Binding::run_segment(const Job& job, const mx_run_context& context) {
  mx_failure* failure = failing([&] { locate(job.segment); });
  if (failure != nullptr) return failure;
  if (!program_->segments()[job.segment].prepared) return run_nodes(job, context);
  if (is_current(job.segment)) return nullptr;
  memo_->record(job.segment, {});  // half a run holds nothing
  failure = run_nodes(job, context);
  if (failure != nullptr) return failure;
  return failing([&] { remember(job.segment); });
}

namespace {

// Tells a profiler, if one listens, of the node that runs while this lives.
class Span {
 public:
  Span(const Tables& tables, const Node& node, const mx_run_context& run) noexcept
      : tables_(tables), node_(node), run_(run) {
    constexpr size_t kNeeded = offsetof(mx_run_context, reporter) + sizeof run.reporter;
    if (run.size >= kNeeded && run.report != nullptr) started_ = now();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() {
    if (started_ == 0) return;
    const mx_engine_api* engine = tables_.engine;
    mx_engine_event event{};
    event.size = sizeof event;
    event.name = tables_.invoke->call_name(tables_.invoke->self, node_.call);
    event.label = engine->intern(engine->self, node_.name.c_str());
    event.context = run_.context;
    event.pushed = event.started = started_;
    event.finished = now();
    event.failed = failed_ ? 1 : 0;
    run_.report(run_.reporter, &event);
  }
  void fail() noexcept { failed_ = true; }

 private:
  static int64_t now() noexcept {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  }
  const Tables& tables_;
  const Node& node_;
  const mx_run_context& run_;
  int64_t started_ = 0;
  bool failed_ = false;
};

}  // namespace

mx_failure* Binding::run_nodes(const Job& job, const mx_run_context& context) {
  const mx_invoke_api* invoke = program_->tables().invoke;
  const Segment& segment = program_->segments()[job.segment];
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    const Node& node = program_->nodes()[i];
    const Step& step = steps_[i];
    Span span(program_->tables(), node, context);
    mx_failure* failure = invoke->run(
        invoke->self, node.call, &context, step.inputs.data(),
        static_cast<uint32_t>(step.inputs.size()), step.outputs.data(), node.req.data(),
        static_cast<uint32_t>(step.outputs.size()), node.scalars.data(),
        static_cast<uint32_t>(node.scalars.size()), node.is_train ? 1 : 0, job.random_key,
        job.random_offset + program_->random_before(i));
    if (failure != nullptr) {
      span.fail();
      return named(failure, node);
    }
  }
  return nullptr;
}

// Says in a failure which node it came from.
mx_failure* Binding::named(mx_failure* failure, const Node& node) const noexcept {
  FailureRef original(failure);
  try {
    const mx_invoke_api* invoke = program_->tables().invoke;
    const std::string where =
        std::string(invoke->call_name(invoke->self, node.call)) + " '" + node.name + "'";
    if (failure->payload_kind == MX_PAYLOAD_NONE) {
      const std::string text = std::string(failure->message) + " (in node " + where + ")";
      return make_failure(failure->code, text.c_str());
    }
    // The exception travels as it is; the wait adds this as a note.
    if (failure->operator_name[0] == '\0') {
      std::snprintf(failure->operator_name, sizeof failure->operator_name, "%s", where.c_str());
    }
  } catch (const std::exception&) {
    // Out of memory: the failure goes on without the node's name.
  }
  return original.release();
}

}  // namespace mx::symbol
