// SPDX-License-Identifier: Apache-2.0
//
// Operations on arrays that are no operators: kernels of the user, sums over GPUs.
#include "bindings_launch.hpp"

#include <pybind11/stl.h>

#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "captured_step.hpp"
#include "direct_launch.hpp"
#include "mx_core/pybind.hpp"
#include "nccl.hpp"

namespace mx::cuda {
namespace {

namespace py = pybind11;

using Extents = std::array<uint32_t, 3>;
// (handle of an array or 0, whether it is written, bits of a number)
using PyArgument = std::tuple<uintptr_t, bool, uint64_t>;

const mx_engine_api* engine_table(const py::object& capsule) {
  return import_plugin_table<mx_engine_api>(capsule.ptr(), MX_ENGINE_CAPSULE, MX_ENGINE_MAJOR, MX_ENGINE_API_SIZE_1_0,
                                            "mx-operators-cuda");
}
const mx_invoke_api* invoke_table(const py::object& capsule) {
  return import_table<mx_invoke_api>(capsule.ptr(), MX_INVOKE_CAPSULE, MX_INVOKE_MAJOR, MX_INVOKE_MINOR,
                                     "mx-operators-cuda");
}

void launch(const py::object& engine, const py::object& invoke, const std::shared_ptr<Kernel>& kernel,
            const std::string& name, int32_t gpu, Extents grid, Extents block, uint32_t shared_bytes,
            const std::vector<PyArgument>& arguments, int32_t priority) {
  translated([&] {
    const mx_engine_api* engine_api = engine_table(engine);
    const mx_invoke_api* invoke_api = invoke_table(invoke);
    DirectLaunch made{kernel, name, gpu, grid, block, shared_bytes, {}};
    for (const auto& [handle, written, bits] : arguments) {
      made.arguments.push_back({reinterpret_cast<mx_array*>(handle), written, bits});
    }
    const GilRelease released;
    push(engine_api, invoke_api, std::move(made), priority);
  });
}

std::vector<mx_array*> arrays_of(const std::vector<uintptr_t>& handles) {
  std::vector<mx_array*> arrays;
  for (const uintptr_t handle : handles) arrays.push_back(reinterpret_cast<mx_array*>(handle));
  return arrays;
}

void collective(const py::object& engine, const py::object& invoke, bool reduces, const std::vector<uintptr_t>& handles,
                uintptr_t root, int32_t priority) {
  translated([&] {
    const mx_engine_api* engine_api = engine_table(engine);
    const mx_invoke_api* invoke_api = invoke_table(invoke);
    const std::vector<mx_array*> arrays = arrays_of(handles);
    const GilRelease released;
    push(engine_api, invoke_api, reduces ? Collective::kReduce : Collective::kBroadcast, arrays,
         reinterpret_cast<mx_array*>(root), priority);
  });
}

constexpr int64_t kLook = 50'000'000;  // nanoseconds between looks for signals

// Waits until nothing is pending.  Failures stay for those who read what failed.
void drain(const mx_engine_api* engine) {
  for (;;) {
    mx_error error{};
    int32_t status = MX_OK;
    {
      const GilRelease released;
      status = engine->wait_for_all(engine->self, kLook, nullptr, &error);
    }
    if (status == MX_OK) return;
    if (status != MX_TIMEOUT) throw Error(static_cast<mx_status>(status), error.message);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void begin(CapturedStep& step, const py::object& engine) {
  translated([&] {
    const mx_engine_api* api = engine_table(engine);
    drain(api);
    step.begin(api);
  });
}

void begin_numbers(CapturedStep& step) {
  translated([&] {
    drain(step.engine());
    step.begin_numbers();
  });
}

void bind(CapturedStep& step, const py::object& invoke, const py::object& random, const std::vector<uintptr_t>& inputs,
          const std::vector<uintptr_t>& written, const std::vector<uintptr_t>& apart) {
  translated([&] {
    const auto* random_api = import_table<mx_resource_api>(random.ptr(), MX_RESOURCE_CAPSULE, MX_RESOURCE_MAJOR,
                                                           MX_RESOURCE_MINOR, "mx-operators-cuda");
    step.bind(invoke_table(invoke), random_api, arrays_of(inputs), arrays_of(written), arrays_of(apart));
  });
}

// Of NDArrays.
std::vector<mx_array*> given_arrays(const py::tuple& given) {
  static const auto* handle = new py::str("handle");
  std::vector<mx_array*> arrays;
  arrays.reserve(given.size());
  for (const py::handle array : given) {
    arrays.push_back(reinterpret_cast<mx_array*>(array.attr(*handle).cast<uintptr_t>()));
  }
  return arrays;
}

bool takes(const CapturedStep& step, const py::tuple& given) { return step.takes(given_arrays(given)); }

void start(CapturedStep& step, const py::tuple& given) {
  translated([&] {
    const auto arrays = given_arrays(given);
    const GilRelease released;  // arrays may be on their way
    step.start(arrays);
  });
}

}  // namespace

void register_launch(py::module_& module) {
  py::class_<CapturedStep, std::shared_ptr<CapturedStep>>(module, "CapturedStep", py::module_local())
      .def("begin", &begin, py::arg("engine"))
      .def("begin_second", [](CapturedStep& self) { translated([&] { self.begin_second(); }); })
      .def("end", [](CapturedStep& self) { translated([&] { self.end(); }); })
      .def("abandon", &CapturedStep::abandon)
      .def("bind", &bind, py::arg("invoke"), py::arg("random"), py::kw_only(), py::arg("inputs"), py::arg("written"),
           py::arg("apart"))
      .def("takes", &takes, py::arg("given"))
      .def("begin_numbers", &begin_numbers)
      .def("drain", [](const CapturedStep& self) { translated([&] { drain(self.engine()); }); })
      .def("missing", &CapturedStep::missing)
      .def("abandon_numbers", &CapturedStep::abandon_numbers)
      .def("host_arrays", [](const CapturedStep& self) { return py::bytes(self.host_arrays()); })
      .def("tell_host_arrays",
           [](CapturedStep& self, const py::bytes& arrays) { translated([&] { self.tell_host_arrays(arrays); }); },
           py::arg("arrays"))
      .def("start", &start, py::arg("given"));
  module.def("launch", &launch, py::arg("engine"), py::arg("invoke"), py::arg("kernel"), py::kw_only(),
             py::arg("name"), py::arg("gpu"), py::arg("grid"), py::arg("block"), py::arg("shared_bytes"),
             py::arg("arguments"), py::arg("priority"), "Pushes a launch of a kernel on arrays; returns at once.");
  module.def("load_nccl", &load_nccl, py::arg("path"), "Loads NCCL, once per process.");
  module.def("nccl_version", &nccl_version, "22809 is 2.28.9.");
  module.def("collective", &collective, py::arg("engine"), py::arg("invoke"), py::kw_only(), py::arg("reduces"),
             py::arg("arrays"), py::arg("root"), py::arg("priority"),
             "Pushes the sum of arrays of different GPUs to `root`, or copies of it to them; returns at once.");
}

}  // namespace mx::cuda
