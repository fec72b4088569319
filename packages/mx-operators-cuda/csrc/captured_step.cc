// SPDX-License-Identifier: Apache-2.0
#include "captured_step.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <iterator>
#include <new>

#include "array_task.hpp"
#include "device_table.hpp"
#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

using Guard = std::lock_guard<std::mutex>;
constexpr size_t kNumbers = size_t{1} << 16;      // of the table
constexpr size_t kHostBytes = size_t{64} << 10;  // of a piece of host memory that becomes numbers
constexpr auto kLook = std::chrono::milliseconds(1);

uintptr_t address(const void* data) noexcept { return reinterpret_cast<uintptr_t>(data); }

// Into a list in order, once.
void insert(std::vector<mx_variable*>& list, mx_variable* variable) {
  const auto at = std::lower_bound(list.begin(), list.end(), variable, std::less<>());
  if (at == list.end() || *at != variable) list.insert(at, variable);
}

// Whether a run was enqueued, for who waits for that.
class Enqueued {
 public:
  void tell() {
    const Guard lock(mutex_);
    told_ = true;
    changed_.notify_all();
  }
  // What is held back in bulks is pushed meanwhile: it may be what the run waits for.
  void wait(const mx_engine_api* engine) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_for(lock, kLook, [this] { return told_; })) {
      lock.unlock();
      engine->pending(engine->self);
      lock.lock();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool told_ = false;  // guarded by mutex_
};

}  // namespace

// A run of the graph: it holds the numbers until they have reached the device, and the arrays that were given.
class CapturedStep::Start final : public ArrayTask {
 public:
  Start(std::vector<Use> given, std::shared_ptr<CapturedStep> step, std::vector<uint64_t> numbers,
        std::shared_ptr<Enqueued> enqueued)
      : ArrayTask(step->tables_.invoke, std::move(given), step->written_),
        step_(std::move(step)),
        numbers_(std::move(numbers)),
        enqueued_(std::move(enqueued)) {}
  ~Start() override { enqueued_->tell(); }  // also if it was skipped

  void run(const mx_run_context& context) const override {
    struct Telling {
      Enqueued& enqueued;
      ~Telling() { enqueued.tell(); }
    } const telling{*enqueued_};
    functions();  // refuses in a forked child
    const auto stream = static_cast<Stream>(context.stream);
    for (size_t i = 0; i < step_->n_inputs_; ++i) {
      const mx_tensor from = tensor(i, true), to = tensor_of(step_->tables_.invoke, step_->arrays_[i], true);
      if (from.data != to.data) copy(stream, to.data, to.context, from.data, from.context, to.bytes);
    }
    step_->fill_table(stream, numbers_);
    step_->launch(stream);
  }

 private:
  const std::shared_ptr<CapturedStep> step_;
  const std::vector<uint64_t> numbers_;
  const std::shared_ptr<Enqueued> enqueued_;
};

CapturedStep::CapturedStep(int32_t gpu, Account& account)
    : gpu_(Gpu::at(gpu)), account_(account), last_run_(std::make_shared<const LastRun>(gpu_)) {
  account_.alloc(kNumbers * sizeof(uint64_t), "captured step", &table_);
}

CapturedStep::~CapturedStep() {
  if (own_ != nullptr) tables_.engine->delete_variable(tables_.engine->self, own_, {MX_CPU, 0}, nullptr, nullptr);
  for (mx_array* array : arrays_) tables_.invoke->array_release(tables_.invoke->self, array);
  for (const Entry& entry : entries_) {
    if (entry.plan != nullptr) entry.plan->release(entry.plan);
  }
  if (forked()) return;
  gpu_.cuda().event_wait(last_run_->event());
  if (graph_ != nullptr) {
    guarded(nullptr, [&] {
      const Current current(gpu_);
      gpu_.cuda().graph_exec_destroy(graph_);
    });
  }
  if (reserve_ != nullptr) account_.end_reserve(reserve_);
  account_.free(table_);
}

void CapturedStep::refuse(const std::string& why) const {
  throw Error(MX_ERROR_UNSUPPORTED, "[CapturedStep] " + gpu_.name() + ": " + why);
}

const uint64_t* CapturedStep::place(size_t number) const {
  return static_cast<const uint64_t*>(table_.data) + number;
}

// Operations are told apart by their order, so they must be enqueued as they are pushed.
void CapturedStep::begin_recording(bool notes) {
  const mx_engine_api* engine = tables_.engine;
  if (!MX_HAS(engine->head.size, mx_engine_api, keep_order)) refuse("the engine keeps no order; since 1.3 it does");
  gpu_.record_to(shared_from_this());
  mx_error error{};
  if (const int32_t status = engine->keep_order(engine->self, {MX_GPU, gpu_.id()}, notes ? 2 : 1, &error)) {
    gpu_.record_to(nullptr);
    throw Error(static_cast<mx_status>(status), said(status, error.message));
  }
}

void CapturedStep::end_recording() {
  tables_.engine->keep_order(tables_.engine->self, {MX_GPU, gpu_.id()}, 0, nullptr);
  gpu_.record_to(nullptr);
}

void CapturedStep::begin(const mx_engine_api* engine) {
  const Guard lock(mutex_);
  if (state_ != State::kNew) refuse("was captured before");
  tables_.engine = engine;
  const Current current(gpu_);
  begin_recording(true);
  Result result = kSuccess;
  try {
    reserve_ = account_.open_reserve(make_pool(PoolType::kPooled, device_memory(gpu_.id(), 0)));
    result = gpu_.cuda().capture_begin(gpu_.stream(0), kCaptureRelaxed);
  } catch (...) {
    end_recording();
    throw;
  }
  if (result != kSuccess) {
    account_.close_reserve(reserve_, {});
    end_recording();
    state_ = State::kFailed;
    check(result, gpu_.name(), "cuStreamBeginCapture");
  }
  state_ = State::kFirst;
}

void CapturedStep::begin_second() {
  const Guard lock(mutex_);
  if (state_ != State::kFirst) refuse("the first part is not being captured");
  second_ = entries_.size();
  state_ = State::kSecond;
}

void CapturedStep::end() {
  {
    const Guard lock(mutex_);
    if (state_ != State::kSecond) refuse("the second part is not being captured");
    account_.close_reserve(reserve_, touched_);
    state_ = State::kFailed;
    end_recording();
    const Current current(gpu_);
    Graph graph = nullptr;
    check(gpu_.cuda().capture_end(gpu_.stream(0), &graph), gpu_.name(), "cuStreamEndCapture");
    const Result result = gpu_.cuda().graph_instantiate(&graph_, graph, 0);
    gpu_.cuda().graph_destroy(graph);
    check(result, gpu_.name(), "cuGraphInstantiate");
    next_ = entries_.size();
    host_.clear();
    is_new_ = true;
    state_ = State::kReady;
  }
  gpu_.add_captured(shared_from_this());
}

void CapturedStep::abandon() noexcept {
  const Guard lock(mutex_);
  if (!capturing()) return;
  account_.close_reserve(reserve_, {});
  state_ = State::kFailed;
  guarded(nullptr, [&] {
    end_recording();
    const Current current(gpu_);
    Graph graph = nullptr;
    if (gpu_.cuda().capture_end(gpu_.stream(0), &graph) == kSuccess && graph != nullptr) {
      gpu_.cuda().graph_destroy(graph);
    }
  });
}

// ---- further runs ----

void CapturedStep::bind(const mx_invoke_api* invoke, const mx_resource_api* random,
                        const std::vector<mx_array*>& inputs, const std::vector<mx_array*>& written,
                        const std::vector<mx_array*>& apart) {
  tables_.invoke = invoke;
  tables_.random = random;
  n_inputs_ = inputs.size();
  std::vector<mx_array*> all = inputs;
  all.insert(all.end(), written.begin(), written.end());
  all.insert(all.end(), apart.begin(), apart.end());
  written_ = variables_of(invoke, all);
  apart_ = variables_of(invoke, apart);
  own_ = tables_.engine->new_variable(tables_.engine->self);
  if (own_ == nullptr) throw std::bad_alloc();
  insert(written_, own_);
  for (mx_array* array : all) invoke->array_retain(invoke->self, array);
  arrays_ = std::move(all);
}

bool CapturedStep::takes(const std::vector<mx_array*>& given) const {
  const mx_invoke_api* invoke = tables_.invoke;
  if (given.size() != n_inputs_) return false;
  for (size_t i = 0; i < given.size(); ++i) {
    mx_tensor mine{}, other{};
    mx_error error{};
    if (invoke->array_tensor(invoke->self, arrays_[i], 0, &mine, &error) != MX_OK) return false;
    if (invoke->array_tensor(invoke->self, given[i], 0, &other, &error) != MX_OK) return false;
    if (mine.dtype != other.dtype || mine.ndim != other.ndim) return false;
    if (!std::equal(mine.shape, mine.shape + mine.ndim, other.shape)) return false;
  }
  return true;
}

// One variable for all that the graph uses, what nobody named included: a start is ordered with it by one place in the
// engine.  While something uses one of them they stay as they are.  What others use one by one stays apart, so that
// they need not wait for each other.
void CapturedStep::join_used() {
  const mx_engine_api* engine = tables_.engine;
  if (joined_ || !MX_HAS(engine->head.size, mx_engine_api, join_noted)) return;
  std::vector<mx_variable*> joining;
  std::set_difference(written_.begin(), written_.end(), apart_.begin(), apart_.end(), std::back_inserter(joining),
                      std::less<>());
  mx_variable* joint = nullptr;
  const int32_t status = engine->join_noted(engine->self, {MX_GPU, gpu_.id()}, joining.data(),
                                            static_cast<uint32_t>(joining.size()), apart_.data(),
                                            static_cast<uint32_t>(apart_.size()), &joint, nullptr);
  joined_ = status == MX_OK;
  if (!joined_) return;
  written_ = apart_;
  insert(written_, joint);
}

void CapturedStep::begin_numbers() {
  const Guard lock(mutex_);
  if (state_ != State::kReady) refuse("there is no graph to start");
  functions();  // refuses in a forked child
  begin_recording(false);
  take_random();
  state_ = State::kNumbers;
  next_ = second_;
  table_is_full_ = false;
}

void CapturedStep::take_random() {
  if (random_.blocks == 0 || std::exchange(is_new_, false)) return;  // the capture took those of the first run
  Random now{0, 0, random_.blocks};
  const mx_resource_api* random = tables_.random;
  random->reserve_random(random->self, {MX_GPU, gpu_.id()}, now.blocks, &now.key, &now.offset);
  const size_t end = second_ < entries_.size() ? entries_[second_].begin : numbers_.size();
  for (size_t i = 0; i < end; ++i) {
    if (kinds_[i] == Parameter::kRandomKey) numbers_[i] = now.key;
    if (kinds_[i] == Parameter::kRandomOffset) numbers_[i] += now.offset - random_.offset;
  }
  random_ = now;
  table_is_full_ = false;
}

size_t CapturedStep::missing() {
  const Guard lock(mutex_);
  return entries_.size() - next_;
}

template <class F>
void CapturedStep::each_host_array(F f) const {
  for (size_t i = second_; i < entries_.size(); ++i) {
    for (const FromHost& one : entries_[i].host) f(one);
  }
}

std::string CapturedStep::host_arrays() const {
  const Guard lock(mutex_);
  std::string found;
  each_host_array([&](const FromHost& one) {
    found.append(reinterpret_cast<const char*>(&numbers_[one.first]), one.bytes);
  });
  return found;
}

void CapturedStep::tell_host_arrays(std::string_view arrays) {
  const Guard lock(mutex_);
  if (state_ != State::kReady) refuse("there is no graph to start");
  size_t bytes = 0;
  each_host_array([&](const FromHost& one) { bytes += one.bytes; });
  if (bytes != arrays.size()) {
    refuse("expected " + std::to_string(bytes) + " bytes of arrays from the host, got " +
           std::to_string(arrays.size()));
  }
  const char* data = arrays.data();
  each_host_array([&](const FromHost& one) {
    std::memcpy(&numbers_[one.first], data, one.bytes);
    data += one.bytes;
  });
  table_is_full_ = false;
}

void CapturedStep::start(const std::vector<mx_array*>& given) {
  std::vector<Use> uses;
  uses.reserve(given.size());
  for (mx_array* array : given) uses.push_back({array, false});
  const auto enqueued = std::make_shared<Enqueued>();
  std::unique_ptr<Start> run;
  {
    const Guard lock(mutex_);
    if (state_ == State::kNumbers) {
      end_recording();
      host_.clear();
    } else {
      if (state_ != State::kReady) refuse("there is no graph to start");
      functions();  // refuses in a forked child
      if (gpu_.recorded() != nullptr) refuse("another step is being captured or started");
      take_random();
    }
    state_ = State::kFailed;
    if (next_ != entries_.size()) {
      refuse(std::to_string(entries_.size() - next_) + " operations of the second part were not pushed");
    }
    join_used();
    std::vector<uint64_t> numbers;
    if (!table_is_full_) numbers = numbers_;
    run = std::make_unique<Start>(std::move(uses), shared_from_this(), std::move(numbers), enqueued);
    state_ = State::kReady;
  }
  push(tables_.engine, std::move(run), "CapturedStep", gpu_.id(), 0);
  enqueued->wait(tables_.engine);
}

void CapturedStep::abandon_numbers() noexcept {
  const Guard lock(mutex_);
  if (state_ != State::kNumbers) return;
  state_ = State::kFailed;
  guarded(nullptr, [&] { end_recording(); });
}

void CapturedStep::fill_table(Stream stream, const std::vector<uint64_t>& numbers) {
  if (numbers.empty()) return;
  const Current current(gpu_);
  check(gpu_.cuda().copy_to_device(address(table_.data), numbers.data(), numbers.size() * sizeof(uint64_t), stream),
        gpu_.name(), "cuMemcpyHtoDAsync");
  const Guard lock(mutex_);
  table_is_full_ = true;
}

void CapturedStep::launch(Stream stream) {
  const Functions& cuda = gpu_.cuda();
  const Current current(gpu_);
  check(cuda.graph_launch(graph_, stream), gpu_.name(), "cuGraphLaunch");
  check(cuda.event_record(last_run_->event(), stream), gpu_.name(), "cuEventRecord");
}

// ---- what is enqueued ----

bool CapturedStep::captures(Stream stream) {
  const Guard lock(mutex_);
  return capturing() && stream == gpu_.stream(0);
}

void CapturedStep::record(const Run& run, const std::function<void(const uint64_t*)>& enqueue) {
  const Guard lock(mutex_);
  if (capturing()) return capture(run, enqueue);
  if (state_ != State::kNumbers) refuse(run.maker->operation() + " came too late");
  take_numbers(run);
}

size_t CapturedStep::add_number(Number number) {
  if (numbers_.size() == kNumbers) refuse("more than " + std::to_string(kNumbers) + " numbers vary from run to run");
  numbers_.push_back(number.bits);
  kinds_.push_back(number.kind);
  return numbers_.size() - 1;
}

void CapturedStep::capture(const Run& run, const std::function<void(const uint64_t*)>& enqueue) {
  Entry entry = entry_of(run.tensors, run.n_inputs);
  entry.first = numbers_.size();
  entry.n = run.numbers.size();
  for (const Number& number : run.numbers) add_number(number);
  if (run.random.blocks != 0 && state_ == State::kFirst) keep_random(run.random);
  enqueue(place(entry.first));
  entry.maker = run.maker;
  entry.requests = run.requests;
  entry.plan = run.plan;
  entries_.push_back(std::move(entry));
  run.plan->retain(run.plan);
}

void CapturedStep::keep_random(const Random& random) {
  if (random_.blocks == 0) {
    random_ = random;
    return;
  }
  if (random.key != random_.key || random.offset < random_.offset) refuse("random numbers were seeded meanwhile");
  random_.blocks = std::max(random_.blocks, random.offset + random.blocks - random_.offset);
}

// The addresses of tensors, of which inputs may come from the host.
CapturedStep::Entry CapturedStep::entry_of(const std::vector<mx_tensor>& tensors, size_t n_inputs) {
  Entry entry{};
  entry.begin = numbers_.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const mx_tensor& tensor = tensors[i];
    const bool own = tensor.data != nullptr && account_.reserved(reserve_, tensor.data);
    const auto piece = host_piece(tensor.data);
    if (piece != host_.end()) {
      if (i < n_inputs) {
        const size_t bytes = piece->second.size(), offset = address(tensor.data) - piece->first;
        entry.host.push_back({i, capture_host(piece), bytes, offset});
      }
      host_.erase(piece);  // from here on it is in the memory, or something else is
    }
    entry.addresses.push_back(own ? nullptr : tensor.data);
    size_t& bytes = touched_[address(tensor.data)];
    bytes = std::max(bytes, tensor.bytes);
  }
  return entry;
}

CapturedStep::Pieces::iterator CapturedStep::host_piece(const void* data) {
  const auto found = host_.upper_bound(address(data));
  if (found == host_.begin()) return host_.end();
  const auto piece = std::prev(found);
  const size_t bytes = std::max<size_t>(piece->second.size(), 1);
  return address(data) - piece->first < bytes ? piece : host_.end();
}

size_t CapturedStep::capture_host(Pieces::iterator piece) {
  const std::vector<char>& bytes = piece->second;
  if (bytes.empty()) {
    refuse("more than " + std::to_string(kHostBytes) + " bytes of host memory are read; make them an input");
  }
  const size_t first = numbers_.size();
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    Number number{0, Parameter::kUint64};
    std::memcpy(&number.bits, &bytes[at], std::min(sizeof number.bits, bytes.size() - at));
    add_number(number);
  }
  check(gpu_.cuda().copy_on_device(piece->first, address(place(first)), bytes.size(), gpu_.stream(0)), gpu_.name(),
        "cuMemcpyDtoDAsync");
  return first;
}

void CapturedStep::take_host(const Entry& entry, const std::string& operation, const std::vector<mx_tensor>& tensors) {
  for (const FromHost& captured : entry.host) {
    const auto piece = host_piece(tensors[captured.tensor].data);
    if (piece == host_.end()) continue;  // as it was
    const size_t offset = address(tensors[captured.tensor].data) - piece->first;
    if (piece->second.size() != captured.bytes || offset != captured.offset) {
      const std::string bytes =
          piece->second.empty() ? "more than " + std::to_string(kHostBytes) : std::to_string(piece->second.size());
      refuse("'" + operation + "' reads at " + std::to_string(offset) + " of " + bytes + " bytes from the host, when it " +
             "was captured at " + std::to_string(captured.offset) + " of " + std::to_string(captured.bytes));
    }
    std::memcpy(&numbers_[captured.first], piece->second.data(), captured.bytes);
  }
}

const CapturedStep::Entry& CapturedStep::expected(const std::string& operation) {
  if (next_ == entries_.size()) {
    refuse("'" + operation + "' is one operation more than were captured");
  }
  return entries_[next_++];
}

void CapturedStep::check_addresses(const Entry& entry, const std::string& operation,
                                   const std::vector<mx_tensor>& tensors) const {
  for (size_t i = 0; i < entry.addresses.size(); ++i) {
    if (entry.addresses[i] != nullptr && entry.addresses[i] != tensors[i].data) {
      refuse("'" + operation + "' is on another array than when it was captured");
    }
  }
}

void CapturedStep::take_numbers(const Run& run) {
  const std::string& name = run.maker->operation();
  const Entry& entry = expected(name);
  if (entry.maker == nullptr || !entry.maker->same_but_numbers(*run.maker) || entry.requests != run.requests) {
    const std::string captured = entry.maker == nullptr ? "a copy" : "'" + entry.maker->operation() + "'";
    refuse("expected " + captured + " as it was captured, got '" + name + "'");
  }
  check_addresses(entry, name, run.tensors);
  for (size_t i = 0; i < entry.n; ++i) numbers_[entry.first + i] = run.numbers[i].bits;
  take_host(entry, name, run.tensors);
}

bool CapturedStep::record(const Copy& copy) {
  const Guard lock(mutex_);
  if (!mx_on_host(copy.from_context) && mx_on_host(copy.to_context)) {
    refuse("memory cannot be read on the host while a step is captured or started");
  }
  if (mx_on_host(copy.from_context)) {
    const auto* data = static_cast<const char*>(copy.from);
    host_[address(copy.to)].assign(data, data + (copy.bytes <= kHostBytes ? copy.bytes : 0));
    return true;
  }
  if (copy.to_context.id != copy.from_context.id || copy.stream != gpu_.stream(0)) {
    refuse("memory cannot be copied between GPUs while a step is captured or started");
  }
  std::vector<mx_tensor> tensors(2);
  tensors[0].data = const_cast<void*>(copy.from);
  tensors[1].data = copy.to;
  tensors[0].bytes = tensors[1].bytes = copy.bytes;
  if (!capturing()) {
    const Entry& entry = expected("copy");
    if (entry.maker != nullptr || entry.bytes != copy.bytes) {
      refuse("a copy of " + std::to_string(copy.bytes) + " bytes was not captured here");
    }
    check_addresses(entry, "copy", tensors);
    take_host(entry, "copy", tensors);
    return false;
  }
  Entry entry = entry_of(tensors, 1);
  entry.bytes = copy.bytes;
  entries_.push_back(std::move(entry));
  return true;
}

void CapturedStep::record_unknown(const char* what) {
  const Guard lock(mutex_);
  if (state_ != State::kFirst) refuse(std::string(what) + " cannot be part of what is pushed before each run");
}

bool CapturedStep::touches(const void* data, size_t bytes) const {
  const Guard lock(mutex_);
  return begins_in(touched_, address(data), bytes) || holds(touched_, address(data));
}

// ---- copies on other streams ----

CopyOrder::CopyOrder(const CapturedStep::Copy& copy) : stream_(copy.stream) {
  const auto look = [&](mx_context context, const void* data) {
    if (context.type != MX_GPU) return;
    Gpu& gpu = Gpu::at(context.id);
    if (gpu.stream(0) == stream_) return;  // in order anyway
    for (auto& step : gpu.captured()) {
      if (!step->touches(data, copy.bytes)) continue;
      check(gpu.cuda().stream_wait(stream_, step->last_run()->event(), 0), gpu.name(), "cuStreamWaitEvent");
      steps_.push_back(std::move(step));
    }
  };
  look(copy.to_context, copy.to);
  look(copy.from_context, copy.from);
}

void CopyOrder::enqueued() const {
  for (const auto& step : steps_) {
    Gpu& gpu = step->gpu();
    const auto recorded = gpu.recorded();
    if (recorded != nullptr && recorded->captures(gpu.stream(0))) continue;
    Gpu& own = Gpu::of(stream_);
    mx_token* token = own.record(stream_);
    const Result result = gpu.cuda().stream_wait(gpu.stream(0), token->event, 0);
    own.recycle(token);
    check(result, gpu.name(), "cuStreamWaitEvent");
  }
}

}  // namespace mx::cuda
