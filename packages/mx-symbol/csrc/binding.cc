// SPDX-License-Identifier: Apache-2.0
#include "binding.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <mutex>

#include "mx_core/striped_mutex.hpp"
#include "profile_span.hpp"

namespace mx::symbol {
namespace {

// Sorts a list and leaves each once, without those of another such list.
void make_distinct(std::vector<mx_variable*>& list, const std::vector<mx_variable*>& without = {}) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  const auto other = [&](mx_variable* each) { return std::binary_search(without.begin(), without.end(), each); };
  if (!without.empty()) list.erase(std::remove_if(list.begin(), list.end(), other), list.end());
}

std::vector<mx_variable*> distinct(std::vector<mx_variable*> list, const std::vector<mx_variable*>& without = {}) {
  make_distinct(list, without);
  return list;
}

mx_tensor described(const Program& program, mx_array* array, int32_t allocate) {
  const mx_invoke_api* invoke = program.tables().invoke;
  mx_tensor whole;
  mx_error error;  // is only written when something fails
  error.message[0] = '\0';
  check(invoke->array_tensor(invoke->self, array, allocate, &whole, &error), error);
  return whole;
}

// As `Context` in Python; of a device type of another package, its number.
std::string text(mx_context context) {
  const std::string type = mx_on_host(context)       ? "cpu"
                           : context.type == MX_GPU ? "gpu"
                                                     : "device type " + std::to_string(context.type) + " ";
  return type + "(" + std::to_string(context.id) + ")";
}

// The host's devices are one memory.
bool same_memory(mx_context a, mx_context b) noexcept {
  if (mx_on_host(a) || mx_on_host(b)) return mx_on_host(a) && mx_on_host(b);
  return a.type == b.type && a.id == b.id;
}

// Whether the first that a segment does with an array is to write all of it.  Arenas hold what is written before it is
// read.
bool overwrites(const Program& program, const Segment& segment, uint32_t array, size_t bytes) {
  if (program.arenas()[array]) return true;
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    const Node& node = program.nodes()[i];
    for (const uint32_t slot : node.inputs) {
      if (program.slots()[slot].array == array) return false;
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const Slot& slot = program.slots()[node.outputs[k]];
      if (slot.array != array || node.req[k] == MX_REQ_NULL) continue;
      return node.req[k] == MX_REQ_WRITE && slot.offset == 0 && slot.bytes == bytes;
    }
  }
  return false;
}

// Memory for those of a segment's arrays that have none.  What may be read before it is written is cleared, and first:
// two arrays may lie in one piece of memory.
void allocate(const Program& program, const Segment& segment, const std::vector<mx_array*>& arrays) {
  for (const bool cleared : {true, false}) {
    for (const uint32_t array : segment.arrays) {
      const mx_tensor whole = described(program, arrays[array], 0);
      if (whole.data == nullptr && overwrites(program, segment, array, whole.bytes) != cleared)
        described(program, arrays[array], cleared ? 1 : 2);
    }
  }
}

}  // namespace

// One push of a segment, of a whole part, or of a barrier, which has no segments; used again and again, so that a
// push allocates nothing.
struct Binding::Job {
  std::shared_ptr<Binding> binding;  // while it is pending
  uint32_t first = 0;                // segment
  std::vector<Random> random;        // per segment

  static mx_failure* run(void* argument, const mx_run_context* context) {
    const auto* job = static_cast<const Job*>(argument);
    for (uint32_t i = 0; i < job->random.size(); ++i) {
      mx_failure* failure = job->binding->run_segment(job->first + i, job->random[i], *context);
      if (failure != nullptr) return failure;
    }
    return nullptr;
  }
  static void destroy(void* argument) {
    std::unique_ptr<Job> job(static_cast<Job*>(argument));
    const std::shared_ptr<Binding> binding = std::move(job->binding);
    const std::lock_guard<std::mutex> lock(StripedMutex<Job>::of(binding.get()));
    binding->idle_jobs_.push_back(std::move(job));  // there is room: see take_job
  }
};

std::unique_ptr<Binding::Job> Binding::take_job() {
  const std::lock_guard<std::mutex> lock(StripedMutex<Job>::of(this));
  if (idle_jobs_.empty()) {
    idle_jobs_.reserve(++n_jobs_);
    return std::make_unique<Job>();
  }
  std::unique_ptr<Job> job = std::move(idle_jobs_.back());
  idle_jobs_.pop_back();
  return job;
}

Binding::Binding(std::shared_ptr<const Program> program, uint32_t only)
    : program_(std::move(program)), only_(only) {
  if (!program_->sealed()) throw Error(MX_ERROR_VALUE, "[Program] is not sealed");
  const std::vector<Segment>& segments = program_->segments();
  uint32_t begin = 0, end = static_cast<uint32_t>(program_->nodes().size());
  if (only_ != kAllParts) {
    const Part& part = program_->part(only_);
    begin = part.begin == part.end ? end : segments[part.begin].begin;
    if (part.begin != part.end) end = segments[part.end - 1].end;
  }
  first_tensor_ = program_->first_tensor(begin);
  const mx_tensor* tensors = program_->tensors().data();
  tensors_.assign(tensors + first_tensor_, tensors + program_->first_tensor(end));
  segments_.resize(segments.size());
  for (uint32_t k = 0; k < program_->parts().size(); ++k) {
    if (!has(k)) continue;
    const Part& part = program_->parts()[k];
    for (uint32_t i = part.begin; i < part.end; ++i) segments_[i].addresses.resize(segments[i].arrays.size());
  }
}

Binding::Binding(std::shared_ptr<const Program> program, std::vector<mx_array*> arrays, std::shared_ptr<Memo> memo,
                 uint32_t only)
    : Binding(std::move(program), only) {
  take(arrays.data(), arrays.size(), memo == nullptr ? std::make_shared<Memo>(*program_) : std::move(memo));
}

void Binding::take(mx_array* const* arrays, size_t n_arrays, std::shared_ptr<Memo> memo) {
  check_arrays(arrays, n_arrays);
  arrays_.assign(arrays, arrays + n_arrays);
  const mx_invoke_api* invoke = program_->tables().invoke;
  for (mx_array* array : arrays_) invoke->array_retain(invoke->self, array);
  memo_ = std::move(memo);
  const mx_engine_api* engine = program_->tables().engine;
  for (size_t i = 0; i < program_->branches().size(); ++i) {
    mx_variable* token = engine->new_variable(engine->self);
    if (token == nullptr) throw std::bad_alloc();
    done_.push_back(token);
  }
  for (uint32_t k = 0; k < program_->parts().size(); ++k) {
    if (!has(k)) continue;
    const Part& part = program_->parts()[k];
    for (uint32_t i = part.begin; i < part.end; ++i) bind_segment(i);
  }
  if (!done_.empty()) bind_barriers();
  if (engine->is_naive(engine->self) != 0) {
    bind_whole();
    return;
  }
  handed_over_.clear();
  append_variables(program_->handed_over(), handed_over_);
  PushLocks::find(handed_over_, stripes_);
}

void Binding::release_arrays() noexcept {
  const mx_invoke_api* invoke = program_->tables().invoke;
  for (mx_array* array : arrays_) invoke->array_release(invoke->self, array);
  arrays_.clear();
}

// Tokens of branches may have failed, and a naive engine has what it runs bound in another way: such bindings are made
// anew.
std::shared_ptr<Binding> Binding::of_call(const std::shared_ptr<const Program>& program, mx_array* const* arrays,
                                          size_t n_arrays, const std::shared_ptr<Memo>& memo, uint32_t part) {
  const mx_engine_api* engine = program->tables().engine;
  const bool again = memo != nullptr && program->branches().empty() && engine->is_naive(engine->self) == 0;
  if (!again) {
    return std::make_shared<Binding>(program, std::vector<mx_array*>(arrays, arrays + n_arrays), memo, part);
  }
  std::unique_ptr<Binding> binding = memo->idle().take(part);
  if (binding == nullptr) binding.reset(new Binding(program, part));
  binding->take(arrays, n_arrays, memo);
  return {binding.release(), &Binding::retire};
}

void Binding::retire(Binding* binding) noexcept {
  std::unique_ptr<Binding> idle(binding);
  idle->release_arrays();
  const std::shared_ptr<Memo> memo = std::move(idle->memo_);  // what is idle keeps no memo, which would keep itself
  const uint32_t part = idle->only_;
  memo->idle().give(part, std::move(idle));
}

Binding::~Binding() {
  release_arrays();
  const mx_engine_api* engine = program_->tables().engine;
  for (mx_variable* token : done_) {
    engine->delete_variable(engine->self, token, program_->context(), [](void*) {}, nullptr);
  }
}

void Binding::check_arrays(mx_array* const* arrays, size_t n_arrays) const {
  const std::vector<size_t>& wanted = program_->array_bytes();
  if (n_arrays != wanted.size()) {
    throw Error(MX_ERROR_VALUE, "[Program] expected " + std::to_string(wanted.size()) +
                                    " arrays, got " + std::to_string(n_arrays));
  }
  for (size_t i = 0; i < n_arrays; ++i) {
    const mx_tensor given = described(*program_, arrays[i], 0);
    if (given.bytes < wanted[i]) {
      throw Error(MX_ERROR_SHAPE, "[Program] array " + std::to_string(i) + ": expected " +
                                      std::to_string(wanted[i]) + " bytes, got " + std::to_string(given.bytes));
    }
    if (!same_memory(given.context, program_->context())) {
      throw Error(MX_ERROR_VALUE, "[Program] array " + std::to_string(i) + " lies on " + text(given.context) +
                                      " but the program runs on " + text(program_->context()) +
                                      "; bring the arrays together with as_in_context");
    }
  }
}

void Binding::append_variables(const std::vector<uint32_t>& arrays, std::vector<mx_variable*>& list) const {
  const mx_invoke_api* invoke = program_->tables().invoke;
  for (const uint32_t array : arrays) {
    list.push_back(invoke->array_variable(invoke->self, arrays_[array]));
  }
}

// Arrays may share a variable (views of one chunk); the engine wants each variable once.  A branch reads
// the arenas it works on: so it runs at the same time as other branches, and after whatever wrote all of them.
void Binding::bind_segment(uint32_t index) {
  const Segment& segment = program_->segments()[index];
  Bound& bound = segments_[index];
  bound.writes.clear();
  bound.reads.clear();
  append_variables(segment.writes, bound.writes);
  append_variables(segment.reads, bound.reads);
  if (segment.branch != kNoBranch) {
    bound.writes.push_back(done_[segment.branch]);
    for (const uint32_t branch : program_->branches()[segment.branch].after) bound.reads.push_back(done_[branch]);
    append_variables(segment.shares, bound.reads);
  }
  make_distinct(bound.writes);
  make_distinct(bound.reads, bound.writes);
}

std::vector<uint32_t> Binding::arena_numbers() const {
  std::vector<uint32_t> arenas;
  for (uint32_t i = 0; i < arrays_.size(); ++i) {
    if (program_->arenas()[i]) arenas.push_back(i);
  }
  return arenas;
}

// A part enters the arenas when nobody else is there, and not after a failure of an earlier part, of
// which it may need what is there.
void Binding::bind_barriers() {
  std::vector<mx_variable*> arenas;
  append_variables(arena_numbers(), arenas);
  for (const Part& part : program_->parts()) {
    std::vector<mx_variable*> earlier;
    for (uint32_t i = 0; i < part.begin; ++i) earlier.push_back(done_[program_->segments()[i].branch]);
    Bound bound;
    bound.writes = distinct(arenas);
    bound.reads = distinct(std::move(earlier), bound.writes);
    barriers_.push_back(std::move(bound));
  }
}

// A naive engine runs at the push what it gets, which may push in turn: a lock around the pushes of a part would be
// held while foreign code runs.  So a part is one operation, and the engine keeps others out.  Not where a kernel in
// Python follows one on an accelerator, whose end the engine awaits between two operations only.
void Binding::bind_whole() {
  const std::vector<Segment>& segments = program_->segments();
  const auto python = [](const Segment& segment) { return segment.python; };
  if (!mx_on_host(program_->context()) && std::any_of(segments.begin(), segments.end(), python)) return;
  for (size_t k = 0; k < program_->parts().size(); ++k) {
    const Part& part = program_->parts()[k];
    std::vector<mx_variable*> writes, reads;
    const auto add = [](std::vector<mx_variable*>& all, const std::vector<mx_variable*>& some) {
      all.insert(all.end(), some.begin(), some.end());
    };
    if (!barriers_.empty()) {
      add(writes, barriers_[k].writes);
      add(reads, barriers_[k].reads);
    }
    for (uint32_t i = part.begin; i < part.end; ++i) {
      add(writes, segments_[i].writes);
      add(reads, segments_[i].reads);
    }
    Bound bound;
    bound.writes = distinct(std::move(writes));
    bound.reads = distinct(std::move(reads), bound.writes);
    whole_.push_back(std::move(bound));
  }
}

void Binding::push(uint32_t part, int32_t priority) {
  const Part& range = program_->part(part);
  if (!has(part)) {
    throw Error(MX_ERROR_VALUE, "[Program] the binding is for part " + std::to_string(only_) + ", got " +
                                    std::to_string(part));
  }
  if (!whole_.empty()) {
    push_whole(part, priority);
    return;
  }
  // Also of one segment: it may not come between two of another part.
  const PushLocks::Held alone = PushLocks::hold(stripes_);
  if (!barriers_.empty()) push_barrier(part, priority);
  Random random = reserve(range.random_blocks);
  for (uint32_t i = range.begin; i < range.end; ++i) {
    const Segment& segment = program_->segments()[i];
    if (segment.branch == kNoBranch) random = reserve(segment.random_blocks);
    push_segment(i, priority, random);
  }
}

void Binding::push_barrier(uint32_t part, int32_t priority) {
  const Bound& bound = barriers_[part];
  if (bound.writes.empty()) return;  // no arena
  std::unique_ptr<Job> job = take_job();
  job->random.clear();
  submit(bound, std::move(job), MX_PUSH_INLINE, priority);
}

void Binding::push_whole(uint32_t part, int32_t priority) {
  if (whole_[part].writes.empty()) return;  // nobody would see what it computes
  const Part& range = program_->part(part);
  std::unique_ptr<Job> job = take_job();
  job->first = range.begin;
  job->random.clear();
  Random random = reserve(range.random_blocks);
  bool python = false;
  for (uint32_t i = range.begin; i < range.end; ++i) {
    const Segment& segment = program_->segments()[i];
    if (segment.branch == kNoBranch) random = reserve(segment.random_blocks);
    job->random.push_back(random);
    python = python || segment.python;
  }
  submit(whole_[part], std::move(job), python ? MX_PUSH_PYTHON : 0, priority);
}

Binding::Random Binding::reserve(uint64_t blocks) const {
  Random random;
  if (blocks != 0) {
    const mx_resource_api* table = program_->tables().random;
    table->reserve_random(table->self, program_->context(), blocks, &random.key, &random.offset);
  }
  return random;
}

void Binding::push_segment(uint32_t index, int32_t priority, Random random) {
  const Segment& segment = program_->segments()[index];
  const Bound& bound = segments_[index];
  if (bound.writes.empty()) return;  // nobody would see what it computes
  std::unique_ptr<Job> job = take_job();
  job->first = index;
  job->random.assign(1, random);
  const bool alone = segment.branch == kNoBranch || program_->branches()[segment.branch].threads == 0;
  // Also what is short has parallel regions, and if it has to wait, it runs on the thread that ran what it waited for:
  // no other is woken.
  uint32_t flags = alone ? MX_PUSH_PARALLEL : 0;
  if (segment.microseconds < kInlineMicroseconds) flags |= MX_PUSH_INLINE;
  submit(bound, std::move(job), segment.python ? MX_PUSH_PYTHON : flags, priority);
}

void Binding::submit(const Bound& bound, std::unique_ptr<Job> job, uint32_t flags, int32_t priority) {
  const Tables& tables = program_->tables();
  job->binding = shared_from_this();
  mx_operation operation{};
  operation.size = sizeof operation;
  operation.flags = flags;
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
  const Segment& segment = program_->segments()[index];
  std::vector<void*>& addresses = segments_[index].addresses;
  bool moved = false, missing = false;
  const auto look = [&] {
    missing = false;
    for (size_t i = 0; i < addresses.size(); ++i) {
      const mx_tensor whole = described(*program_, arrays_[segment.arrays[i]], 0);
      missing = missing || (whole.data == nullptr && whole.bytes != 0);
      moved = moved || whole.data != addresses[i];
      addresses[i] = whole.data;
    }
  };
  look();
  if (missing) {
    allocate(*program_, segment, arrays_);
    look();
  }
  if (!moved) return;
  const Window* windows = program_->windows().data();
  const size_t end = program_->first_tensor(segment.end);
  for (size_t tensor = program_->first_tensor(segment.begin); tensor < end; ++tensor) {
    const Window& window = windows[tensor];
    auto* const base = window.array == kNoArray ? nullptr : static_cast<char*>(addresses[window.array]);
    tensors_[tensor - first_tensor_].data = base == nullptr ? nullptr : base + window.offset;
  }
}

mx_failure* Binding::run_segment(uint32_t index, Random random, const mx_run_context& context) {
  if (segments_[index].writes.empty()) return nullptr;
  mx_failure* failure = failing([&] { locate(index); });
  if (failure != nullptr) return failure;
  if (!program_->segments()[index].prepared) return run_nodes(index, random, context);
  if (is_current(index)) return nullptr;
  const bool first = index == 0 || !program_->segments()[index - 1].prepared;
  if (first) forget_prepared();
  failure = run_nodes(index, random, context);
  if (failure != nullptr) {
    forget_prepared();
    return failure;
  }
  return failing([&] { remember(index); });
}

mx_failure* Binding::run_nodes(uint32_t index, Random random, const mx_run_context& given) {
  const mx_invoke_api* invoke = program_->tables().invoke;
  const Segment& segment = program_->segments()[index];
  mx_run_context context{};
  std::memcpy(&context, &given, std::min<size_t>(given.size, sizeof context));
  context.size = sizeof context;
  if (segment.branch != kNoBranch) context.threads = program_->branches()[segment.branch].threads;
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    const Node& node = program_->nodes()[i];
    const mx_tensor* inputs = tensors_.data() + (program_->first_tensor(i) - first_tensor_);
    const mx_tensor* outputs = inputs + node.inputs.size();
    ProfileSpan span(program_->tables(), node, context);
    mx_failure* failure = invoke->run(
        invoke->self, node.call, &context, inputs, static_cast<uint32_t>(node.inputs.size()), outputs,
        node.req.data(), static_cast<uint32_t>(node.outputs.size()), node.scalars.data(),
        static_cast<uint32_t>(node.scalars.size()), node.is_train ? 1 : 0, random.key,
        random.offset + program_->random_before(i));
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
    if (failure->payload_kind != MX_PAYLOAD_PYTHON) {
      const std::string text = std::string(failure->message) + " (in node " + where + ")";
      return make_failure(failure->code, text.c_str());
    }
    // The exception travels as it is; the wait adds this as a note.
    name_failure(failure, where.c_str(), nullptr);
  } catch (const std::exception&) {
    // Out of memory: the failure goes on without the node's name.
  }
  return original.release();
}

}  // namespace mx::symbol
