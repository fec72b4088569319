// SPDX-License-Identifier: Apache-2.0
#include "mx_core/pybind.hpp"

#include "bindings_exchange.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exchange.hpp"
#include "links.hpp"
#include "mx_core/types.hpp"
#include "shared_sums.hpp"
#include "transport.hpp"
#include "window.hpp"

namespace py = pybind11;

namespace mx::kv {
namespace {

using Numbers = py::array_t<int64_t, py::array::c_style>;
using Handles = std::vector<uintptr_t>;

std::vector<mx_array*> arrays_of(const Handles& handles) {
  std::vector<mx_array*> arrays;
  for (const uintptr_t handle : handles) arrays.push_back(reinterpret_cast<mx_array*>(handle));
  return arrays;
}

Tables tables_of(const py::object& engine, const py::object& invoke) {
  Tables tables;
  tables.engine = import_plugin_table<mx_engine_api>(engine.ptr(), MX_ENGINE_CAPSULE, MX_ENGINE_MAJOR,
                                                     MX_ENGINE_API_SIZE_1_0, "mx-kvstore");
  tables.invoke = import_table<mx_invoke_api>(invoke.ptr(), MX_INVOKE_CAPSULE, MX_INVOKE_MAJOR, MX_INVOKE_MINOR,
                                              "mx-kvstore");
  return tables;
}

py::object bytes_of(const void* memory, size_t bytes, bool writable) {
  static char nothing = 0;
  if (memory == nullptr && bytes > 0) return py::none();
  auto* data = const_cast<void*>(memory == nullptr ? &nothing : memory);
  return py::memoryview::from_memory(data, static_cast<py::ssize_t>(bytes), !writable);
}

// A failure that an exception is in; NULL for None.
mx_failure* failure_of(const py::object& error) {
  if (error.is_none()) return nullptr;
  if (PyExceptionInstance_Check(error.ptr()) == 0) throw py::type_error("[complete] error: expected an exception or None");
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  return take_python_failure();
}

// A failure with the exception that a function gives; on any thread, without the GIL.
mx_failure* failure_from(PyObject* function) noexcept {
  if (!interpreter_ends()) {
    const GilAcquire gil;
    PyObject* error = PyObject_CallNoArgs(function);
    if (error != nullptr && PyExceptionInstance_Check(error) != 0) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    }
    Py_XDECREF(error);
    if (PyErr_Occurred() != nullptr) return take_python_failure();
  }
  return make_failure(MX_ERROR_SHUTDOWN, "[KVStore] the job has ended");
}

const char* name_of(Found::What what) noexcept {
  switch (what) {
    case Found::What::kIdle: return "idle";
    case Found::What::kWaits: return "waits";
    case Found::What::kApart: return "apart";
    case Found::What::kFailed: return "failed";
    default: return "round";
  }
}

void bind_request(py::module_& module) {
  py::class_<Request, std::shared_ptr<Request>>(module, "Request")
      .def_property_readonly("told", [](const Request& self) { return decoded(self.call().told.c_str()); })
      .def_property_readonly("kind", [](const Request& self) { return static_cast<int>(self.call().kind); })
      .def_property_readonly("dtype", [](const Request& self) { return self.item().dtype; })
      .def_property_readonly("bits", [](const Request& self) { return static_cast<int>(self.item().code); })
      .def_property_readonly("threshold", [](const Request& self) { return self.item().threshold; })
      .def_property_readonly(
          "send", [](const Request& self) { return bytes_of(self.item().send, self.item().bytes, false); })
      .def_property_readonly(
          "receive", [](const Request& self) { return bytes_of(self.item().targets[0], self.item().bytes, true); })
      .def_property_readonly(
          "residual", [](const Request& self) { return bytes_of(self.item().residual, self.item().bytes, true); })
      .def("complete", [](Request& self, const py::object& error) {
        mx_failure* failure = failure_of(error);
        const GilRelease released;
        return self.complete(failure, false);
      });
}

void bind_found(py::module_& module) {
  py::class_<Found>(module, "Found")
      .def_property_readonly("what", [](const Found& self) { return name_of(self.what); })
      .def_readonly("step", &Found::step)
      .def_readonly("differs", &Found::differs)
      .def_property_readonly("told", [](const Found& self) { return decoded(self.told.c_str()); })
      .def_readonly("requests", &Found::requests);
}

void push_call(Exchange& self, const py::object& engine, const py::object& invoke, int kind, int64_t key,
          const std::string& told, int64_t mark, int32_t priority, const Handles& reads, const Handles& writes, int bits,
          float threshold) {
  translated([&] {
    const bool codes = kind == static_cast<int>(Kind::kCodes);
    const size_t sends = kind == static_cast<int>(Kind::kFirst) ? 0 : 1;
    if (kind < 0 || kind > 2 || reads.size() != sends || writes.size() < (codes ? 2U : 1U)) {
      throw Error(MX_ERROR_VALUE, "[Exchange.push] these arrays are not those of kind " + std::to_string(kind));
    }
    if (bits != 1 && bits != 2) throw Error(MX_ERROR_VALUE, "[Exchange.push] bits: expected 1 or 2");
    const Tables tables = tables_of(engine, invoke);
    Call call{static_cast<Kind>(kind), key, told, mark, priority, static_cast<Code>(bits), threshold};
    const std::vector<mx_array*> read = arrays_of(reads), written = arrays_of(writes);
    const GilRelease released;
    self.push(tables, std::move(call), read, written);
  });
}

// A method without the GIL.
template <class Result, class... Arguments>
auto quietly(Result (Exchange::*method)(Arguments...)) {
  return [method](Exchange& self, Arguments... arguments) {
    return translated([&] {
      const GilRelease released;
      return (self.*method)(arguments...);
    });
  };
}

Found run(Exchange& self, Transport& transport, double seconds) {
  return translated([&] {
    const GilRelease released;
    return self.run(transport, seconds);
  });
}

}  // namespace

void bind_exchange(py::module_& module) {
  bind_request(module);
  bind_found(module);
  py::class_<Exchange, std::shared_ptr<Exchange>>(module, "Exchange")
      .def(py::init([](const py::object& error_from) {
             const std::shared_ptr<PyObject> held(error_from.inc_ref().ptr(),
                                                  [](PyObject* object) { Reaper::instance().drop(object); });
             return std::make_shared<Exchange>([held] { return failure_from(held.get()); });
           }),
           py::arg("error_from"))
      .def("new_key", quietly(&Exchange::new_key))
      .def("push", &push_call, py::arg("engine"), py::arg("invoke"), py::arg("kind"), py::arg("key"), py::arg("told"),
           py::arg("mark"), py::arg("priority"), py::arg("reads"), py::arg("writes"), py::arg("bits") = 2,
           py::arg("threshold") = 0.0F)
      .def("set_step", quietly(&Exchange::set_step), py::arg("mark"))
      .def("fail", quietly(&Exchange::fail))
      .def("wake", quietly(&Exchange::wake))
      .def("oldest",
           [](Exchange& self) {
             std::pair<double, std::string> found;
             {
               const GilRelease released;
               found = self.oldest();
             }
             return py::make_tuple(found.first, decoded(found.second.c_str()));
           })
      .def_property_readonly("idle", &Exchange::idle)
      .def("fits", [](Exchange& self, Window& window) { return self.fits(OverWindow(window)); }, py::arg("transport"))
      .def("fits", [](Exchange& self, Links& links) { return self.fits(links); }, py::arg("transport"))
      .def_property_readonly("inside", &Exchange::inside)
      .def(
          "run",
          [](Exchange& self, Window& window, double seconds) {
            OverWindow transport(window);
            return run(self, transport, seconds);
          },
          py::arg("transport"), py::arg("seconds"))
      .def("run", [](Exchange& self, Links& links, double seconds) { return run(self, links, seconds); },
           py::arg("transport"), py::arg("seconds"))
      .def("ready", quietly(&Exchange::ready), py::arg("seconds"))
      .def("rest", quietly(&Exchange::rest))
      .def("tell",
           [](Exchange& self) {
             const std::vector<int64_t> numbers = translated([&] {
               const GilRelease released;
               return self.tell();
             });
             return Numbers(static_cast<py::ssize_t>(numbers.size()), numbers.data());
           })
      .def(
          "decide",
          [](Exchange& self, const Numbers& least) {
            const std::vector<int64_t> numbers(least.data(), least.data() + least.size());
            if (numbers.size() < 4) throw py::value_error("[Exchange.decide] least: expected what `tell` gives");
            return translated([&] {
              const GilRelease released;
              return self.decide(numbers);
            });
          },
          py::arg("least"));
}

}  // namespace mx::kv
