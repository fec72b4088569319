// SPDX-License-Identifier: Apache-2.0
//
// Operators and parameters of mx_core as the native side sees them; making calls.
#include <mutex>
#include <unordered_map>

#include "bindings.hpp"

namespace mx::nd {
namespace {

constexpr const char* kCallCapsule = "mx.call.v1";
constexpr size_t kParameterSets = 4096;  // per operator; more start afresh

uint64_t next_key() noexcept {
  static std::atomic<uint64_t> key{0};
  return ++key;
}

// Shape and type of each.
py::tuple describe(Array* const* arrays, uint32_t n) {
  py::tuple specs(n);
  for (uint32_t i = 0; i < n; ++i) {
    specs[i] = py::make_tuple(shape_tuple(arrays[i]->shape()), arrays[i]->dtype());
  }
  return specs;
}

GradientEntry entry_from(const py::handle& entry) {
  if (entry.is_none()) return {};
  const py::tuple fields(py::reinterpret_borrow<py::object>(entry));
  const auto kind = fields[0].cast<std::string>();
  GradientEntry made;
  made.kind = kind == "out_grad" ? GradientEntry::Kind::kOutGrad
              : kind == "input"  ? GradientEntry::Kind::kInput
              : kind == "output" ? GradientEntry::Kind::kOutput
                                 : GradientEntry::Kind::kStep;
  made.index = fields[1].cast<uint32_t>();
  made.output = fields[2].cast<uint32_t>();
  return made;
}

void mark(const py::handle& entries, Keep keep, Gradient& gradient) {
  for (const py::handle item : entries) {
    const GradientEntry entry = entry_from(item);
    if (entry.kind == GradientEntry::Kind::kInput) gradient.inputs.at(entry.index) = keep;
    if (entry.kind == GradientEntry::Kind::kOutput) gradient.outputs.at(entry.index) = keep;
  }
}

// Operators by name and by property.  They are never freed: parameters, nodes, functions and threads
// that run Python hold plain references.
class KnownOperators {
 public:
  static KnownOperators& instance() noexcept {
    static auto* known = new KnownOperators;
    return *known;
  }
  PyOperator* find(const std::string& name) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  PyOperator* find(PyObject* property) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = by_property_.find(property);
    return found == by_property_.end() ? nullptr : found->second;
  }
  void name(const std::string& name, PyOperator& op) {
    std::lock_guard<std::mutex> lock(mutex_);
    by_name_[name] = &op;
  }
  // The first one that was added for its property.
  PyOperator& add(std::unique_ptr<PyOperator> op) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto [place, fresh] = by_property_.emplace(op->property.ptr(), op.get());
    if (fresh) op.release();
    return *place->second;
  }
  void forget() {
    std::lock_guard<std::mutex> lock(mutex_);
    by_name_.clear();
    by_property_.clear();
  }

 private:
  std::mutex mutex_;  // never held while Python runs
  std::unordered_map<std::string, PyOperator*> by_name_;
  std::unordered_map<PyObject*, PyOperator*> by_property_;
};

// Publishes `made` unless another thread was first; the one that stays.
Params& publish(std::atomic<Params*>& place, Ref<Params> made) noexcept {
  Params* first = nullptr;
  if (place.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel)) {
    return *made.detach();
  }
  return *first;
}

class Library final : public OperatorLibrary {
 public:
  Operator& find(const char* name) override { return find_operator(name); }
  Params& no_params(Operator& op) override { return static_cast<PyOperator&>(op).no_params(); }
};

std::vector<TensorSpec> specs_from(const py::sequence& specs) {
  std::vector<TensorSpec> made;
  made.reserve(specs.size());
  for (const py::handle item : specs) {
    const py::sequence pair = py::reinterpret_borrow<py::sequence>(item);
    made.push_back({shape_of(pair[0]), pair[1].cast<int32_t>()});
  }
  return made;
}

std::vector<TensorSpec> specs_of(Array* const* arrays, uint32_t n) {
  std::vector<TensorSpec> made;
  made.reserve(n);
  for (uint32_t i = 0; i < n; ++i) made.push_back({arrays[i]->shape(), arrays[i]->dtype()});
  return made;
}

void check_indices(const std::string& name, const Call& call) {
  bool valid = call.visible_outputs <= call.outputs.size();
  for (const uint32_t i : call.mutated) valid = valid && i < call.inputs.size();
  for (const auto& [i, o] : call.inplace) {
    valid = valid && i < call.inputs.size() && o < call.outputs.size();
  }
  if (!valid) throw Error(MX_ERROR_INDEX, "[" + name + "] declares indices of tensors it has not");
}

// What a call needs to know of its operator and parameters and does not depend on shapes.
struct CallFacts {
  std::string name;
  uint32_t visible_outputs;
  std::vector<uint32_t> mutated;
  std::vector<std::pair<uint32_t, uint32_t>> inplace;
  uint32_t n_scalars;
  bool dynamic_output;
  std::vector<uint32_t> shape_only;
};

// What a new signature was prepared to, besides the facts.
struct Prepared {
  std::string kernel;
  uint64_t random_blocks;
  py::object plan;      // capsule MX_PLAN_CAPSULE, or None
  py::object function;  // a kernel in Python, where there is no plan
};

Ref<Call> new_call(const CallFacts& facts, mx_context context, std::vector<TensorSpec> inputs,
                   std::vector<TensorSpec> outputs, Prepared prepared) {
  Ref<Call> call = Ref<Call>::adopt(new Call);
  const mx_engine_api* engine = Runtime::instance().engine();
  call->name = engine->intern(engine->self, facts.name.c_str());
  call->context = context;
  call->inputs = std::move(inputs);
  call->outputs = std::move(outputs);
  call->visible_outputs = facts.visible_outputs;
  call->mutated = facts.mutated;
  call->inplace = facts.inplace;
  call->n_scalars = facts.n_scalars;
  call->random_blocks = prepared.random_blocks;
  call->dynamic_output = facts.dynamic_output;
  if (!facts.shape_only.empty()) {
    call->shape_only.assign(call->inputs.size(), false);
    for (const uint32_t i : facts.shape_only) call->shape_only.at(i) = true;
  }
  call->kernel = std::move(prepared.kernel);
  check_indices(facts.name, *call);
  if (!prepared.plan.is_none()) {
    // mx_core.kernels has checked it.
    auto* native = static_cast<mx_plan*>(PyCapsule_GetPointer(prepared.plan.ptr(), MX_PLAN_CAPSULE));
    if (native == nullptr) throw PythonErrorSet{};
    native->retain(native);
    call->plan = native;
    if (native->random_blocks != 0) call->random_blocks = native->random_blocks;
  } else {
    call->foreign = python_kernel(std::move(prepared.function));
    call->inplace.clear();  // results of a Python function may be views of its inputs
  }
  call->seal();
  return call;
}

py::object capsule_of(Ref<Call> call) {
  PyObject* capsule = owned(PyCapsule_New(call.get(), kCallCapsule, [](PyObject* object) {
    static_cast<Call*>(PyCapsule_GetPointer(object, kCallCapsule))->release();
  }));
  call.detach();
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace

void drop(py::object& object) noexcept {
  PyObject* raw = object.release().ptr();
  if (PyGILState_Check() != 0) {
    Py_XDECREF(raw);
  } else {
    Reaper::instance().drop(raw);
  }
}

PyParams::~PyParams() { drop(instance); }

PyOperator::~PyOperator() {
  for (std::atomic<Params*>* place : {&none_, &any_scalar_}) {
    if (Params* params = place->load(std::memory_order_relaxed)) params->release();
  }
  drop(keys_);
}

Ref<Params> PyOperator::params(const py::object& instance) {
  const py::object key = instance.attr("key");
  if (keys_.size() >= kParameterSets) keys_.clear();
  const py::int_ fresh(next_key());
  uint64_t number = 0;
  {
    const CriticalSection section(keys_.ptr());  // the number is borrowed
    PyObject* known = PyDict_SetDefault(keys_.ptr(), key.ptr(), fresh.ptr());
    if (known == nullptr) throw PythonErrorSet{};
    number = PyLong_AsUnsignedLongLong(known);
  }
  return Ref<Params>::adopt(new PyParams(number,
                                         instance.attr("scalars").cast<std::vector<double>>(),
                                         instance));
}

Params& PyOperator::no_params() {
  if (Params* known = none_.load(std::memory_order_acquire)) return *known;
  return publish(none_, params(property.attr("Param").attr("parse")(py::dict(), py::arg("op") = name)));
}

Ref<Params> PyOperator::scalar_params(double number, bool recording, bool* exact) {
  *exact = true;
  if (!recording) {
    if (Params* any = any_scalar_.load(std::memory_order_acquire)) {
      *exact = false;
      return Ref<Params>::share(any);
    }
  }
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  CacheKey key;
  key.add(bits);
  if (Ref<Params> known = scalars_.find(key)) return known;
  Ref<Params> made = params(hooks().scalar_params(property, number));
  // Only if the scalar is the single run-time parameter may another value stand in for it.
  if (made->scalars.size() == 1) publish(any_scalar_, made);
  return scalars_.insert(key, std::move(made));
}

Ref<Call> PyOperator::prepare(const Signature& signature) {
  const uint32_t n = signature.n_inputs;
  py::tuple shapes(n);
  py::tuple types(n);
  for (uint32_t i = 0; i < n; ++i) {
    shapes[i] = shape_tuple(signature.inputs[i]->shape());
    types[i] = py::int_(signature.inputs[i]->dtype());
  }
  const py::object outputs = signature.n_outputs == 0
                                 ? py::object(py::none())
                                 : py::object(describe(signature.outputs, signature.n_outputs));
  const py::tuple made(hooks().prepare(property, static_cast<PyParams*>(signature.params)->instance, shapes,
                                       types, outputs,
                                       py::make_tuple(signature.context.type, signature.context.id),
                                       signature.is_train));
  return new_call(made[0].cast<const CallFacts&>(), signature.context, specs_of(signature.inputs, n),
                  specs_from(made[1]),
                  {made[2].cast<std::string>(), made[3].cast<uint64_t>(), made[4], made[5]});
}

std::unique_ptr<Gradient> PyOperator::make_gradient(Params& params) {
  const py::object& instance = static_cast<PyParams&>(params).instance;
  const py::object source = hooks().gradient(property, instance);
  auto made = std::make_unique<Gradient>();
  made->inputs.assign(py::len(property.attr("inputs")(instance)) +
                          py::len(property.attr("aux")(instance)),
                      Keep::kNothing);
  made->outputs.assign(py::len(property.attr("outputs")(instance)), Keep::kNothing);
  for (const py::handle node : source.attr("nodes")) {
    GradientStep step;
    PyOperator& op = operator_of(hooks().find(node.attr("op")));
    step.params = op.params(node.attr("params"));
    step.op = Ref<Operator>::share(&op);
    for (const py::handle entry : node.attr("inputs")) step.inputs.push_back(entry_from(entry));
    made->steps.push_back(std::move(step));
  }
  for (const py::handle grad : source.attr("grads")) made->grads.push_back(entry_from(grad));
  mark(source.attr("shape_reads"), Keep::kShape, *made);
  mark(source.attr("reads") - source.attr("shape_reads"), Keep::kValue, *made);
  return made;
}

PyOperator& operator_of(const py::object& property) {
  KnownOperators& known = KnownOperators::instance();
  if (PyOperator* found = known.find(property.ptr())) return *found;
  return known.add(std::make_unique<PyOperator>(property.attr("name").cast<std::string>(),
                                                property.attr("needs_train_flag").cast<bool>(),
                                                property));
}

PyOperator& find_operator(const char* name) {
  KnownOperators& known = KnownOperators::instance();
  if (PyOperator* found = known.find(name)) return *found;
  PyOperator& op = operator_of(hooks().find(name));
  known.name(name, op);
  return op;
}

OperatorLibrary& library() noexcept {
  static Library library;
  return library;
}

void register_operator(py::module_& module) {
  py::class_<CallFacts>(module, "CallFacts", "What prepared calls know of an operator and its parameters.")
      .def(py::init([](std::string name, uint32_t visible_outputs, std::vector<uint32_t> mutated,
                       std::vector<std::pair<uint32_t, uint32_t>> inplace, uint32_t n_scalars,
                       bool dynamic_output, std::vector<uint32_t> shape_only) {
             return CallFacts{std::move(name), visible_outputs, std::move(mutated), std::move(inplace),
                              n_scalars,       dynamic_output,  std::move(shape_only)};
           }),
           py::kw_only(), py::arg("name"), py::arg("visible_outputs"), py::arg("mutated"),
           py::arg("inplace"), py::arg("n_scalars"), py::arg("dynamic_output"), py::arg("shape_only"));
  module.def(
      "make_call",
      [](const CallFacts& facts, std::pair<int32_t, int32_t> context, const py::sequence& inputs,
         const py::sequence& outputs, std::string kernel, uint64_t random_blocks,
         const py::object& plan, const py::object& function) {
        return translated([&] {
          return capsule_of(new_call(facts, {context.first, context.second}, specs_from(inputs), specs_from(outputs),
                                     {std::move(kernel), random_blocks, plan, function}));
        });
      },
      py::arg("facts"), py::arg("context"), py::arg("inputs"), py::arg("outputs"), py::arg("kernel"),
      py::arg("random_blocks"), py::arg("plan"), py::arg("function"), "A prepared call as capsule mx.call.v1.");
  module.def(
      "forget_operators",
      [] {
        forget_arithmetic();
        KnownOperators::instance().forget();
      },
      "Drops cached operators and signatures; for tests that change the registry.");
  module.def(
      "cached_signatures",
      [](const py::object& property) {
        return translated([&] { return operator_of(property).cache.size(); });
      },
      py::arg("property"), "How many signatures of an operator are prepared.");
}

}  // namespace mx::nd
