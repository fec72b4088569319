// SPDX-License-Identifier: Apache-2.0
#include "launch_plan.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#include "lent.hpp"

namespace mx::cuda {
namespace {

constexpr size_t kParameters = 256;  // more than CUDA's 4 KiB hold

std::string shape_text(const int64_t* shape, size_t n) {
  std::string made = "(";
  for (size_t axis = 0; axis < n; ++axis) made += (axis ? ", " : "") + std::to_string(shape[axis]);
  return made + ")";
}

// The values a launch points to.
union Value {
  const void* pointer;
  struct {
    uint64_t bits;
    const uint64_t* place;
  } given;  // Given<T> of elementwise.cuh
  int32_t request;
  uint32_t narrow;
  uint64_t wide;
};

// The bits of a number that varies from run to run.
uint64_t bits_of(const Parameter& p, const Call& call) {
  switch (p.kind) {
    case Parameter::kRandomKey: return call.context.random_key;
    case Parameter::kRandomOffset: return call.context.random_offset;
    case Parameter::kNumber: return p.number;
    default: break;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, &call.context.scalars[p.number], sizeof bits);
  return bits;
}

bool same(const Launch& a, const Launch& b) {
  const auto alike = [](const Parameter& p, const Parameter& q) {
    return p == q || (p.kind == Parameter::kNumber && q.kind == Parameter::kNumber);
  };
  return a.kernel == b.kernel && a.blocks == b.blocks && a.threads == b.threads && a.shared_bytes == b.shared_bytes &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(), alike);
}
bool same(const Product& a, const Product& b) {
  const auto all = [](const Product& p) {
    return std::tuple(p.dtype, p.transpose_a, p.transpose_b, p.m, p.n, p.k, p.row_a, p.row_b, p.row_c, p.stride_a,
                      p.stride_b, p.stride_c, p.batch, p.add);
  };
  return a.a == b.a && a.b == b.b && a.c == b.c && all(a) == all(b);
}
bool same(const Library& a, const Library& b) {
  return a.written == b.written && a.added == b.added && a.places == b.places && a.results == b.results &&
         a.workspace == b.workspace && a.then == b.then && a.instead == b.instead;
}
bool same(const Finished& a, const Finished& b) {
  return a.plan == b.plan && a.a == b.a && a.b == b.b && a.c == b.c && a.bias == b.bias && a.workspace == b.workspace &&
         a.instead == b.instead;
}

Stream stream_of(const Call& call) { return static_cast<Stream>(call.context.stream); }

}  // namespace

LaunchPlan::LaunchPlan(Signature signature, LaunchSpec spec)
    : Plan(spec.name + "] [" + name_of({MX_GPU, spec.gpu}), std::move(signature)), spec_(std::move(spec)) {
  Gpu& gpu = Gpu::at(spec_.gpu);
  for (const auto& step : spec_.steps) {
    std::visit([&](const auto& one) { check_step(one, gpu); }, step);
  }
  const uint32_t n_scalars = signature_.n_scalars;
  for (const Condition& c : spec_.conditions) {
    if (c.larger >= n_scalars || c.smaller >= static_cast<int32_t>(n_scalars)) {
      refuse(MX_ERROR_VALUE, "a condition of a scalar that there is not");
    }
  }
  if (spec_.counted) check_counted();
  if (spec_.spare > spec_.scratch.size() || (spec_.spare > 0 && (spec_.storage == nullptr || spec_.counted))) {
    refuse(MX_ERROR_VALUE, "malformed spare memory");
  }
  for (size_t i = 0; i < spec_.scratch.size(); ++i) {
    if (i >= spec_.spare) {
      scratch_.push_back(add_scratch(spec_.scratch[i]));
      continue;
    }
    spare_places_.push_back(spare_bytes_);
    if (spec_.scratch[i] > SIZE_MAX / 2 - spare_bytes_) throw std::bad_alloc();
    spare_bytes_ += aligned(spec_.scratch[i]);
  }
  size_t numbers = 0;
  for (const auto& step : spec_.steps) {
    first_number_.push_back(numbers);
    if (const auto* launch = std::get_if<Launch>(&step)) {
      for (const Parameter& p : launch->parameters) numbers += p.varies() ? 1 : 0;
    }
  }
  random_blocks = spec_.random_blocks;
}

void LaunchPlan::check_counted() {
  const Counted& counted = *spec_.counted;
  const bool there = counted.scratch < spec_.scratch.size() && counted.steps <= spec_.steps.size() &&
                     counted.offset <= spec_.scratch[counted.scratch] &&
                     spec_.scratch[counted.scratch] - counted.offset >= sizeof(int64_t);
  if (!there || signature_.outputs.size() != 1) refuse(MX_ERROR_VALUE, "rows of an output that nothing counts");
  flags = MX_PLAN_HEAVY;  // it waits
}

size_t LaunchPlan::limit_of(Parameter::Kind kind) const {
  switch (kind) {
    case Parameter::kInput: return signature_.inputs.size();
    case Parameter::kOutput:
    case Parameter::kRequest: return signature_.outputs.size();
    case Parameter::kScalar: return signature_.n_scalars;
    default: return spec_.scratch.size();
  }
}

void LaunchPlan::check_parameter(const Parameter& p, const std::string& owner) const {
  if (p.kind <= Parameter::kScratch && p.number >= limit_of(p.kind)) {
    refuse(MX_ERROR_VALUE, owner + " has a parameter out of range");
  }
}

void LaunchPlan::check_step(const Launch& launch, const Gpu& gpu) const {
  if (launch.parameters.size() > kParameters || launch.blocks == 0 || launch.threads == 0) {
    refuse(MX_ERROR_VALUE, "malformed launch of " + launch.kernel->name());
  }
  for (const Parameter& p : launch.parameters) check_parameter(p, launch.kernel->name());
  launch.kernel->on(gpu);  // loads now, so that a run only launches
}

void LaunchPlan::check_step(const Product& product, const Gpu&) const {
  check_product(product);
  if (spec_.storage == nullptr) refuse(MX_ERROR_VALUE, "a product needs memory for its workspace");
  for (const Parameter& p : {product.a, product.b, product.c}) {
    check_parameter(p, "a product");
    if (p.kind != Parameter::kInput && p.kind != Parameter::kOutput &&
        p.kind != Parameter::kScratch) {
      refuse(MX_ERROR_VALUE, "a product of what is no tensor");
    }
  }
}

void LaunchPlan::check_step(const Library& library, const Gpu&) const {
  for (const Parameter& p : library.places) check_parameter(p, "a graph of cuDNN");
  check_parameter(library.workspace, "a graph of cuDNN");
  const auto named = [&](const auto& plan) {
    return std::all_of(plan->ids().begin(), plan->ids().end(), [&](int64_t id) {
      return id >= 1 && id <= static_cast<int64_t>(library.places.size());
    });
  };
  const bool outputs = std::all_of(library.results.begin(), library.results.end(), [&](const Parameter& p) {
    return p.kind == Parameter::kOutput && p.number < signature_.outputs.size();
  });
  const size_t after = steps_after(&library);
  if (library.results.empty() || !outputs || library.workspace.kind != Parameter::kScratch ||
      library.written == nullptr || !named(library.written) ||
      (library.added != nullptr && (library.results.size() != 1 || !named(library.added))) || library.then > after ||
      library.instead > after - library.then) {
    refuse(MX_ERROR_VALUE, "malformed graph of cuDNN");
  }
}

size_t LaunchPlan::steps_after(const void* step) const {
  for (size_t i = 0; i < spec_.steps.size(); ++i) {
    const bool here = std::visit([&](const auto& one) { return static_cast<const void*>(&one) == step; }, spec_.steps[i]);
    if (here) return spec_.steps.size() - i - 1;
  }
  return 0;
}

void LaunchPlan::check_step(const Finished& finished, const Gpu&) const {
  std::vector<Parameter> places{finished.a, finished.b, finished.c, finished.workspace};
  if (finished.bias) places.push_back(*finished.bias);
  for (const Parameter& p : places) check_parameter(p, "a product");
  if (finished.plan == nullptr || finished.c.kind != Parameter::kOutput ||
      finished.workspace.kind != Parameter::kScratch || finished.plan->what().bias != finished.bias.has_value() ||
      finished.instead > steps_after(&finished)) {
    refuse(MX_ERROR_VALUE, "malformed product");
  }
}

void LaunchPlan::check_tensor(const char* what, size_t i, const mx_tensor& given, const Spec& spec) const {
  const auto ndim = static_cast<size_t>(given.ndim);
  if (!std::equal(spec.shape.begin(), spec.shape.end(), given.shape, given.shape + ndim)) {
    refuse(MX_ERROR_SHAPE, std::string(what) + " " + std::to_string(i) + ": the plan was made for shape " +
                               shape_text(spec.shape.data(), spec.shape.size()) + ", got " +
                               shape_text(given.shape, ndim));
  }
  if (given.bytes != 0 && (given.context.type != MX_GPU || given.context.id != spec_.gpu)) {
    refuse(MX_ERROR_VALUE, std::string(what) + " " + std::to_string(i) + " lies on " + name_of(given.context));
  }
}

void LaunchPlan::check(const Call& call) const {
  for (size_t i = 0; i < signature_.inputs.size(); ++i) check_tensor("input", i, call.inputs[i], input(i));
  for (size_t i = 0; i < signature_.outputs.size(); ++i) {
    if (!spec_.counted) check_tensor("output", i, call.outputs[i], output(i));
    if (call.adds(i) && !spec_.adds) {
      refuse(MX_ERROR_UNSUPPORTED, "nothing is added to an output that is written in parts");
    }
  }
  for (const Condition& c : spec_.conditions) {
    const double larger = call.scalar(c.larger);
    const double smaller = c.smaller < 0 ? 0 : call.scalar(static_cast<size_t>(c.smaller));
    if (c.above ? larger > smaller : larger >= smaller) continue;
    refuse(MX_ERROR_VALUE, c.refusal + ": got " + std::to_string(larger) +
                               (c.smaller < 0 ? "" : " and " + std::to_string(smaller)));
  }
  if (call.context.stream == nullptr) refuse(MX_ERROR_VALUE, "the plan needs a stream of the device");
}

void LaunchPlan::execute(const Call& call) const {
  const bool wanted = std::any_of(call.req, call.req + signature_.outputs.size(),
                                  [](uint8_t request) { return request != MX_REQ_NULL; });
  if (spec_.steps.empty() || (!wanted && !signature_.outputs.empty())) return;
  const Gpu& gpu = Gpu::at(spec_.gpu);  // refuses in a forked child
  const Current current(gpu);
  const auto captured = gpu.recorded();
  if (captured == nullptr) return run_all(gpu, call, nullptr);
  captured->record(described(call), [&](const uint64_t* places) { run_all(gpu, call, places); });
}

void LaunchPlan::run_all(const Gpu& gpu, const Call& call, const uint64_t* places) const {
  const bool has_spare = MX_HAS(call.context.size, mx_kernel_context, staging) && call.context.staging != nullptr;
  if (spare_bytes_ != 0 && !has_spare) return run_with_spare(gpu, call, places);
  if (!spec_.counted) return run_steps(gpu, call, 0, spec_.steps.size(), places);
  if (places != nullptr) refuse(MX_ERROR_UNSUPPORTED, "its shape is known only after a run, so it cannot be captured");
  run_steps(gpu, call, 0, spec_.counted->steps, nullptr);
  Shape shape{counted_rows(gpu, call)};
  shape.insert(shape.end(), spec_.counted->row.begin(), spec_.counted->row.end());
  mx_tensor made{};
  mx_error error{};
  if (call.context.alloc_output == nullptr) refuse(MX_ERROR_ABI, "whoever runs the plan gives it no output");
  const int32_t status = call.context.alloc_output(&call.context, 0, static_cast<int32_t>(shape.size()), shape.data(),
                                                   &made, &error);
  if (status != MX_OK) throw Error(static_cast<mx_status>(status), error.message);
  if (made.bytes == 0) return;
  run_steps(gpu, {call.context, call.inputs, &made, call.req, call.plan}, spec_.counted->steps, spec_.steps.size(),
            nullptr);
}

CapturedStep::Run LaunchPlan::described(const Call& call) const {
  CapturedStep::Run made{this, const_cast<LaunchPlan*>(this), {}, {}, 0, {}, {}};
  for (const auto& step : spec_.steps) {
    const auto* launch = std::get_if<Launch>(&step);
    if (launch == nullptr) continue;
    for (const Parameter& p : launch->parameters) {
      if (p.varies()) made.numbers.push_back({bits_of(p, call), p.kind});
    }
  }
  const size_t n_inputs = signature_.inputs.size(), n_outputs = signature_.outputs.size();
  made.n_inputs = n_inputs;
  for (size_t i = 0; i < n_inputs; ++i) made.tensors.push_back(call.inputs[i]);
  for (size_t i = 0; i < n_outputs; ++i) made.tensors.push_back(call.outputs[i]);
  made.requests.assign(call.req, call.req + n_outputs);
  made.random = {call.context.random_key, call.context.random_offset, spec_.random_blocks};
  return made;
}

bool LaunchPlan::same_but_numbers(const Capturable& other) const {
  const auto* plan = dynamic_cast<const LaunchPlan*>(&other);
  if (plan == this) return true;
  const auto alike = [](const auto& a, const auto& b) {
    return a.index() == b.index() && std::visit(
                                         [&](const auto& one) {
                                           return same(one, std::get<std::decay_t<decltype(one)>>(b));
                                         },
                                         a);
  };
  return plan != nullptr && plan->spec_.name == spec_.name && plan->spec_.scratch == spec_.scratch &&
         std::equal(spec_.steps.begin(), spec_.steps.end(), plan->spec_.steps.begin(), plan->spec_.steps.end(), alike);
}

void LaunchPlan::run_steps(const Gpu& gpu, const Call& call, size_t begin, size_t end, const uint64_t* places) const {
  size_t skipped = end, skipping = 0;  // steps that are not enqueued begin at the former
  for (size_t i = begin; i < end; ++i) {
    if (i == skipped) i += skipping;
    if (i >= end) break;
    if (const auto* library = std::get_if<Library>(&spec_.steps[i])) {
      if (enqueue(*library, gpu, call)) {
        skipped = i + 1 + library->then;
        skipping = library->instead;
      } else {
        i += library->then;
      }
    } else if (const auto* finished = std::get_if<Finished>(&spec_.steps[i])) {
      if (enqueue(*finished, gpu, call)) i += finished->instead;
    } else if (const auto* product = std::get_if<Product>(&spec_.steps[i])) {
      enqueue(*product, gpu, call, places != nullptr);
    } else {
      enqueue(std::get<Launch>(spec_.steps[i]), gpu, call, places == nullptr ? nullptr : places + first_number_[i]);
    }
  }
}

int64_t LaunchPlan::counted_rows(const Gpu& gpu, const Call& call) const {
  const auto* from = call.scratch<char>(scratch_[spec_.counted->scratch]) + spec_.counted->offset;
  int64_t rows = 0;
  cuda::check(gpu.cuda().copy_to_host(&rows, reinterpret_cast<uintptr_t>(from), sizeof rows, stream_of(call)), name_,
              "cuMemcpyDtoHAsync");
  wait(gpu, call);
  return rows;
}

// Until what was enqueued is done.
void LaunchPlan::wait(const Gpu& gpu, const Call& call) const {
  Gpu& owner = Gpu::at(spec_.gpu);
  mx_token* token = owner.record(stream_of(call));
  const Result result = gpu.cuda().event_wait(token->event);
  owner.recycle(token);
  cuda::check(result, name_, "cuEventSynchronize");
}

void* LaunchPlan::pointer(const Parameter& p, const Call& call) const {
  const auto at = [&p](void* data) { return static_cast<char*>(data) + p.offset; };
  switch (p.kind) {
    case Parameter::kInput: return at(call.inputs[p.number].data);
    case Parameter::kOutput: return at(call.outputs[p.number].data);
    default: break;
  }
  if (p.number >= spec_.spare) return at(call.scratch<char>(scratch_[p.number - spec_.spare]));
  return at(static_cast<char*>(call.context.staging) + spare_places_[p.number]);
}

void LaunchPlan::enqueue(const Launch& launch, const Gpu& gpu, const Call& call, const uint64_t* place) const {
  Value values[kParameters];
  void* pointers[kParameters];
  for (size_t i = 0; i < launch.parameters.size(); ++i) {
    const Parameter& p = launch.parameters[i];
    Value& value = values[i];
    pointers[i] = &value;
    switch (p.kind) {
      case Parameter::kInput:
      case Parameter::kOutput:
      case Parameter::kScratch: value.pointer = pointer(p, call); break;
      case Parameter::kRequest: value.request = call.req[p.number]; break;
      case Parameter::kUint32: value.narrow = static_cast<uint32_t>(p.number); break;
      case Parameter::kUint64: value.wide = p.number; break;
      case Parameter::kScalar:
      case Parameter::kRandomKey:
      case Parameter::kRandomOffset:
      case Parameter::kNumber:
        value.given = {bits_of(p, call), place};
        place = place == nullptr ? nullptr : place + 1;
        break;
    }
  }
  const Result result =
      gpu.cuda().launch(launch.kernel->on(gpu), launch.blocks, 1, 1, launch.threads, 1, 1,
                        launch.shared_bytes, stream_of(call), pointers, nullptr);
  if (result != kSuccess) cuda::check(result, name_, "cuLaunchKernel");
}

bool LaunchPlan::enqueue(const Finished& finished, const Gpu&, const Call& call) const {
  const uint8_t request = call.req[finished.c.number];
  if (request == MX_REQ_NULL) return true;
  const bool add = request == MX_REQ_ADD;
  if (add && finished.plan->what().relu) return false;
  void* const a = pointer(finished.a, call);
  void* const b = pointer(finished.b, call);
  void* const c = pointer(finished.c, call);
  void* const bias = finished.bias ? pointer(*finished.bias, call) : nullptr;
  for (const void* each : {a, b, c, bias}) {
    if (reinterpret_cast<uintptr_t>(each) % lt::kAlignment != 0) return false;
  }
  constexpr uintptr_t mask = lt::kWorkspaceAlignment - 1;
  const auto scratch = reinterpret_cast<uintptr_t>(pointer(finished.workspace, call));
  finished.plan->run(stream_of(call), a, b, bias, c, reinterpret_cast<void*>((scratch + mask) & ~mask), add,
                     name_);
  return true;
}

void LaunchPlan::enqueue(const Product& product, const Gpu& gpu, const Call& call, bool captured) const {
  bool add = product.add;
  if (product.c.kind == Parameter::kOutput) {
    const uint8_t request = call.req[product.c.number];
    if (request == MX_REQ_NULL) return;
    add = add || request == MX_REQ_ADD;
  }
  multiply(gpu, stream_of(call), product, pointer(product.a, call), pointer(product.b, call), pointer(product.c, call),
           add, {spec_.storage, captured}, name_);
}

bool LaunchPlan::agree(const Library& library, const uint8_t* req, uint8_t* request) {
  const bool omits = library.written->omits();
  *request = req[library.results.front().number];
  for (const Parameter& p : library.results) {
    const uint8_t given = req[p.number];
    if (omits && *request == MX_REQ_NULL) *request = given;
    if (given != *request && !(omits && given == MX_REQ_NULL)) return false;
  }
  return true;
}

// What of cuDNN computes what is requested; null where nothing is, or nothing does.
const dnn::LibraryPlan* LaunchPlan::serving(const Library& library, const uint8_t* req) {
  uint8_t request = MX_REQ_NULL;
  if (!agree(library, req, &request) || request == MX_REQ_NULL) return nullptr;
  return (request == MX_REQ_ADD ? library.added : library.written).get();
}

std::optional<std::vector<void*>> LaunchPlan::addresses(const Library& library, const dnn::LibraryPlan& plan,
                                                        const Call& call) const {
  std::vector<void*> found;
  const auto place_of = [&](int64_t id) -> const Parameter& { return library.places[static_cast<size_t>(id - 1)]; };
  const auto reads = [](const Parameter& p) { return p.kind == Parameter::kInput; };
  for (const int64_t id : plan.ids()) {
    const Parameter& place = place_of(id);
    if (plan.omits() && place.kind == Parameter::kOutput && call.req[place.number] == MX_REQ_NULL) {
      found.push_back(nullptr);
      continue;
    }
    void* const data = pointer(place, call);
    if (reinterpret_cast<uintptr_t>(data) % dnn::kAlignment != 0) return std::nullopt;
    const auto same = std::find(found.begin(), found.end(), data);
    const bool shared = same != found.end();
    if (shared && !(reads(place) && reads(place_of(plan.ids()[static_cast<size_t>(same - found.begin())])))) {
      return std::nullopt;  // one of both is written
    }
    found.push_back(data);
  }
  return found;
}

bool LaunchPlan::enqueue(const Library& library, const Gpu& gpu, const Call& call) const {
  uint8_t request = MX_REQ_NULL;
  if (agree(library, call.req, &request) && request == MX_REQ_NULL) return library.then == 0;
  const dnn::LibraryPlan* plan = serving(library, call.req);
  if (plan == nullptr) return false;
  const auto pointers = addresses(library, *plan, call);
  if (!pointers) return false;
  constexpr uintptr_t mask = dnn::kWorkspaceAlignment - 1;
  const auto scratch = reinterpret_cast<uintptr_t>(pointer(library.workspace, call));
  plan->run(gpu, stream_of(call), *pointers, reinterpret_cast<void*>((scratch + mask) & ~mask), name_);
  return true;
}

// The spare pieces, where the requests need them.
size_t LaunchPlan::staging(const uint8_t* req) const {
  if (spare_bytes_ == 0) return 0;
  for (const auto& step : spec_.steps) {
    const auto* library = std::get_if<Library>(&step);
    if (library == nullptr || serving(*library, req) != nullptr) continue;
    uint8_t request = MX_REQ_NULL;
    const bool unwanted = agree(*library, req, &request) && request == MX_REQ_NULL;
    if (!unwanted || library->then != 0) return spare_bytes_;
  }
  return 0;
}

// A run that has no spare pieces.  They are needed where cuDNN does not take the addresses, which nobody knew before:
// the run then takes memory for itself, and waits, unless it is captured.
void LaunchPlan::run_with_spare(const Gpu& gpu, const Call& call, const uint64_t* places) const {
  const bool served = std::all_of(spec_.steps.begin(), spec_.steps.end(), [&](const auto& step) {
    const auto* library = std::get_if<Library>(&step);
    const auto* plan = library == nullptr ? nullptr : serving(*library, call.req);
    return plan == nullptr || addresses(*library, *plan, call).has_value();
  });
  if (served) return run_steps(gpu, call, 0, spec_.steps.size(), places);
  const Lent lent(*spec_.storage, {MX_GPU, spec_.gpu}, spare_bytes_, "scratch");
  mx_kernel_context context{};
  std::memcpy(&context, &call.context, std::min<size_t>(call.context.size, sizeof context));
  context.size = sizeof context;
  context.staging = lent.block().data;
  struct Waits {
    std::function<void()> body;
    ~Waits() { guarded(nullptr, body); }  // also after a failure; what the GPU failed in is told by who waits next
  } const waits{[&] {
    if (places == nullptr) wait(gpu, call);
  }};
  run_steps(gpu, {context, call.inputs, call.outputs, call.req, call.plan}, 0, spec_.steps.size(), places);
}

}  // namespace mx::cuda
