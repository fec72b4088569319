// SPDX-License-Identifier: Apache-2.0
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <variant>

#include "bindings_cudnn.hpp"
#include "bindings_launch.hpp"
#include "captured_step.hpp"
#include "device_table.hpp"
#include "gpu.hpp"
#include "mx_core/pybind_holder.hpp"
#include "mx_core/python_storage.hpp"
#include "storage_manager.hpp"

namespace mx::cuda {
namespace {

namespace py = pybind11;

PoolType pool_type(const std::string& name) {
  if (name == "pooled") return PoolType::kPooled;
  if (name == "best_fit") return PoolType::kBestFit;
  if (name == "naive") return PoolType::kNaive;
  throw Error(MX_ERROR_VALUE,
              "[StorageManager] pool: expected pooled, best_fit or naive, got '" + name + "'");
}

// The device table, and what Python asks about GPUs.
class Device {
 public:
  static py::capsule capsule() { return py::capsule(device_table(), MX_DEVICE_CAPSULE); }
  static std::string model(int32_t id) { return Gpu::at(id).model(); }
  static int multiprocessors(int32_t id) { return Gpu::at(id).attribute(kMultiprocessors); }
  static std::tuple<int, int> capability(int32_t id) {
    return {Gpu::at(id).attribute(kMajor), Gpu::at(id).attribute(kMinor)};
  }
  static std::tuple<size_t, size_t> memory(int32_t id) {
    size_t free_bytes = 0, total = 0;
    Gpu::at(id).memory(&free_bytes, &total);
    return {free_bytes, total};
  }
  static void synchronize(int32_t id) {
    const GilRelease released;
    Gpu::at(id).synchronize();
  }
  static uintptr_t stream(int32_t id, int32_t lane) {
    return reinterpret_cast<uintptr_t>(Gpu::at(id).stream(lane));
  }
};

int checked(int reserve) {
  if (reserve >= 0 && reserve <= 100) return reserve;
  throw Error(MX_ERROR_VALUE, "[StorageManager] reserve: expected 0 to 100 percent, got " +
                                  std::to_string(reserve));
}

class PyStorage {
 public:
  PyStorage(std::string name, const std::string& type, const std::string& pool, int reserve)
      : name_(std::move(name)),
        manager_(std::make_shared<StorageManager>(type == "gpu" ? MX_GPU : MX_CPU_PINNED,
                                                  pool_type(pool), checked(reserve))) {
    manager_->account({manager_->type(), 0});  // says now what the machine lacks
  }
  py::capsule capsule() const { return capsule_of(manager_, manager_->table(), MX_STORAGE_CAPSULE); }
  const std::string& name() const noexcept { return name_; }
  Account& account(const py::object& context) {
    return manager_->account(context_argument("[StorageManager] ctx", context, {manager_->type(), 0}));
  }
  std::map<std::string, uint64_t> holders(const py::object& context) { return account(context).holders(); }
  // A step to be captured, with this memory.
  std::shared_ptr<CapturedStep> captured_step(int32_t gpu, const py::object& context) {
    return std::make_shared<CapturedStep>(gpu, account(context));
  }
  // Address of a new block; for allocators of other libraries.
  uintptr_t alloc(const py::object& nbytes, const py::object& context) {
    const auto bytes = whole_number<size_t>("[StorageManager.alloc] nbytes", nbytes);
    mx_block block{};
    account(context).alloc(bytes, "foreign", &block);
    const auto address = reinterpret_cast<uintptr_t>(block.data);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (address != 0) foreign_[address] = block;
    return address;
  }
  void free(const py::object& place) {
    const auto address = whole_number<uintptr_t>("[StorageManager.free] address", place);
    std::unique_lock<std::mutex> lock(mutex_);
    const auto found = foreign_.extract(address);
    lock.unlock();
    if (found.empty()) throw Error(MX_ERROR_VALUE, "[" + name_ + "] there is no such block to free");
    const mx_storage_api* table = manager_->table();
    table->free(table->self, &found.mapped());
  }

 private:
  const std::string name_;
  const std::shared_ptr<StorageManager> manager_;
  std::mutex mutex_;
  std::map<uintptr_t, mx_block> foreign_;  // guarded by mutex_
};

// (kernel, blocks, threads, shared bytes, parameters)
using PyLaunch =
    std::tuple<std::shared_ptr<Kernel>, uint32_t, uint32_t, uint32_t, std::vector<PyParameter>>;
// (shape, type code)
using PySpec = std::pair<std::vector<int64_t>, int32_t>;

std::vector<Spec> specs(const std::vector<PySpec>& given) {
  std::vector<Spec> made;
  for (const auto& [shape, dtype] : given) made.emplace_back(shape, dtype);
  return made;
}

// (larger, smaller or -1, above, refusal)
using PyCondition = std::tuple<uint32_t, int32_t, bool, std::string>;
// (steps, scratch, offset, extents of a row)
using PyCounted = std::tuple<size_t, uint32_t, size_t, std::vector<int64_t>>;
using PyStep =
    std::variant<PyLaunch, std::shared_ptr<Product>, std::shared_ptr<Library>, std::shared_ptr<Finished>>;

std::variant<Launch, Product, Library, Finished> step(const PyStep& given) {
  if (const auto* product = std::get_if<std::shared_ptr<Product>>(&given)) return **product;
  if (const auto* library = std::get_if<std::shared_ptr<Library>>(&given)) return **library;
  if (const auto* finished = std::get_if<std::shared_ptr<Finished>>(&given)) return **finished;
  const auto& [kernel, blocks, threads, shared_bytes, parameters] = std::get<PyLaunch>(given);
  Launch launch{kernel, blocks, threads, shared_bytes, {}};
  for (const PyParameter& one : parameters) launch.parameters.push_back(parameter(one));
  return launch;
}

py::object launch_plan(const std::string& name, int32_t gpu, const std::vector<PySpec>& inputs,
                       const std::vector<PySpec>& outputs, const std::vector<PyStep>& steps,
                       uint32_t n_scalars, const std::vector<size_t>& scratch,
                       uint64_t random_blocks, const std::vector<PyCondition>& conditions,
                       bool adds, const std::optional<PyCounted>& counted, size_t spare, const py::object& storage) {
  LaunchSpec spec{name, gpu, scratch, random_blocks, adds, {}, {}};
  spec.spare = spare;
  if (!storage.is_none()) {
    spec.storage = import_plugin_table<mx_storage_api>(storage.ptr(), MX_STORAGE_CAPSULE, MX_STORAGE_MAJOR,
                                                       sizeof(mx_storage_api), "mx-operators-cuda");
  }
  if (counted) {
    const auto& [first, piece, offset, row] = *counted;
    spec.counted = Counted{first, piece, offset, row};
  }
  for (const auto& [larger, smaller, above, refusal] : conditions) {
    spec.conditions.push_back({larger, smaller, above, refusal});
  }
  for (const PyStep& given : steps) spec.steps.push_back(step(given));
  auto plan = std::make_unique<LaunchPlan>(Signature{specs(inputs), specs(outputs), n_scalars}, std::move(spec));
  PyObject* made = PyCapsule_New(static_cast<mx_plan*>(plan.get()), MX_PLAN_CAPSULE, [](PyObject* self) {
    auto* held = static_cast<mx_plan*>(PyCapsule_GetPointer(self, MX_PLAN_CAPSULE));
    held->release(held);
  });
  if (made == nullptr) throw py::error_already_set();
  static_cast<void>(plan.release());
  return py::reinterpret_steal<py::object>(made);
}

std::shared_ptr<Kernel> make_kernel(std::string name, const py::bytes& image) {
  return std::make_shared<Kernel>(std::move(name), std::string(image));
}

std::shared_ptr<Product> make_product(const PyParameter& a, const PyParameter& b, const PyParameter& c, int32_t dtype,
                                      std::pair<bool, bool> transposed, std::array<int64_t, 3> sizes,
                                      std::array<int64_t, 3> rows, std::array<int64_t, 3> strides, int64_t batch,
                                      bool add) {
  return std::make_shared<Product>(Product{parameter(a), parameter(b), parameter(c), dtype, transposed.first,
                                           transposed.second, sizes[0], sizes[1], sizes[2], rows[0], rows[1], rows[2],
                                           strides[0], strides[1], strides[2], batch, add});
}

}  // namespace

PYBIND11_MODULE(_native, module, pybind11::mod_gil_not_used()) {
  module.doc() = "The CUDA driver: GPUs, their memory, launches of compiled kernels.";
  translate_errors();
  const py::object none = py::none();

  module.def(
      "probe",
      [] {
        const Driver& found = driver();
        return std::make_tuple(forked() ? 0 : found.count, found.version, found.problem);
      },
      "(GPUs, driver version, why there is none).");

  py::class_<Device>(module, "Device", py::module_local())
      .def("__init__", mx::init<std::unique_ptr<Device>>(), py::detail::is_new_style_constructor())
      .def_property_readonly("capsule", [](const Device&) { return Device::capsule(); })
      .def_property_readonly("name", [](const Device&) { return "CUDA"; })
      .def_static("model", &Device::model, py::arg("id"))
      .def_static("multiprocessors", &Device::multiprocessors, py::arg("id"))
      .def_static("capability", &Device::capability, py::arg("id"))
      .def_static("memory", &Device::memory, py::arg("id"))
      .def_static("stream", &Device::stream, py::arg("id"), py::arg("lane") = 0)
      .def_static("synchronize", &Device::synchronize, py::arg("id"));

  bind_storage_stats(module);
  py::class_<PyStorage> storage(module, "StorageManager", py::module_local());
  storage
      .def("__init__", mx::init<std::unique_ptr<PyStorage>, std::string, const std::string&, const std::string&, int>(),
           py::detail::is_new_style_constructor(), py::arg("name"),
           py::kw_only(), py::arg("device"), py::arg("pool") = "pooled", py::arg("reserve") = 0)
      .def("captured_step", &PyStorage::captured_step, py::arg("gpu"), py::arg("ctx"), py::keep_alive<0, 1>())
      .def("alloc", &PyStorage::alloc, py::arg("nbytes"), py::arg("ctx") = none)
      .def("free", &PyStorage::free, py::arg("address"));
  bind_accounts(storage);

  py::class_<Kernel, std::shared_ptr<Kernel>>(module, "Kernel", py::module_local())
      .def("__init__", mx::init(&make_kernel), py::detail::is_new_style_constructor(),
           py::arg("name"), py::arg("image"))
      .def_property_readonly("name", &Kernel::name)
      .def("load", [](Kernel& self, int32_t gpu) { self.on(Gpu::at(gpu)); }, py::arg("gpu"));

  py::class_<Product, std::shared_ptr<Product>>(module, "Product", py::module_local())
      .def("__init__", mx::init(&make_product), py::detail::is_new_style_constructor(), py::arg("a"),
           py::arg("b"), py::arg("c"), py::kw_only(), py::arg("dtype"),
           py::arg("transposed"), py::arg("sizes"), py::arg("rows"), py::arg("strides"),
           py::arg("batch"), py::arg("add"));
  module.def("load_blas", &load_blas, py::arg("path"), "Loads cuBLAS, once per process.");

  bind_cudnn(module);
  bind_blas_lt(module);

  module.def("launch_plan", &launch_plan, py::arg("name"), py::arg("gpu"), py::arg("inputs"),
             py::arg("outputs"), py::arg("steps"), py::kw_only(), py::arg("n_scalars") = 0,
             py::arg("scratch") = std::vector<size_t>{}, py::arg("random_blocks") = 0,
             py::arg("conditions") = std::vector<PyCondition>{}, py::arg("adds") = true, py::arg("counted") = none,
             py::arg("spare") = 0, py::arg("storage") = none,
             "A plan (capsule mx.plan.v1) of kernels, products and convolutions, one after another.");
  register_launch(module);
  mx::refuse_uninitialised(module);
}

}  // namespace mx::cuda
