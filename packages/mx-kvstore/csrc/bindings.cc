// SPDX-License-Identifier: Apache-2.0
#include "mx_core/pybind.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings_exchange.hpp"
#include "bindings_memory.hpp"
#include "bindings_neighbours.hpp"
#include "bindings_transports.hpp"
#include "codec.hpp"
#include "loops.hpp"
#include "mx_core/pybind_holder.hpp"

namespace py = pybind11;

namespace mx::kv {
namespace {

using Floats = py::array_t<float, py::array::c_style>;
using Words = py::array_t<uint32_t, py::array::c_style>;
using Handles = std::vector<uintptr_t>;

Code code_of(int bits) {
  if (bits != 1 && bits != 2) throw Error(MX_ERROR_VALUE, "[Compression] bits: expected 1 or 2, got " + std::to_string(bits));
  return static_cast<Code>(bits);
}

void check_count(const char* what, py::ssize_t found, int64_t expected) {
  if (found == expected) return;
  throw Error(MX_ERROR_SHAPE, std::string("[Compression] ") + what + ": expected " + std::to_string(expected) +
                                  " elements, got " + std::to_string(found));
}

void check_writable(const char* what, const py::array& array) {
  if (array.writeable()) return;
  throw Error(MX_ERROR_VALUE, std::string("[Compression] ") + what + ": expected an array that may be written");
}

void compress_memory(int bits, float threshold, const Floats& gradient, Floats& residual, Words& codes) {
  translated([&] {
    const Code code = code_of(bits);
    const int64_t n = gradient.size();
    check_count("residual", residual.size(), n);
    check_count("codes", codes.size(), code_bytes(code, n) / 4);
    check_writable("residual", residual);
    check_writable("codes", codes);
    const float* from = gradient.data();
    float* kept = residual.mutable_data();
    auto* to = reinterpret_cast<uint8_t*>(codes.mutable_data());
    const GilRelease released;
    compress(code, threshold, from, kept, to, n);
  });
}

void expand_memory(int bits, float threshold, const Words& codes, Floats& out, bool add) {
  translated([&] {
    const Code code = code_of(bits);
    const int64_t n = out.size();
    check_count("codes", codes.size(), code_bytes(code, n) / 4);
    check_writable("out", out);
    const auto* from = reinterpret_cast<const uint8_t*>(codes.data());
    float* to = out.mutable_data();
    const GilRelease released;
    Expander(code, threshold)(from, to, n, add);
  });
}

mx_array* array_of(uintptr_t handle) { return reinterpret_cast<mx_array*>(handle); }

std::vector<mx_array*> arrays_of(const Handles& handles) {
  std::vector<mx_array*> arrays;
  for (const uintptr_t handle : handles) arrays.push_back(array_of(handle));
  return arrays;
}

// Threads: any.
class Loops {
 public:
  Loops(const py::object& engine, const py::object& invoke) {
    translated([&] {
      tables_.engine = import_plugin_table<mx_engine_api>(engine.ptr(), MX_ENGINE_CAPSULE, MX_ENGINE_MAJOR,
                                                          MX_ENGINE_API_SIZE_1_0, "mx-kvstore");
      tables_.invoke = import_table<mx_invoke_api>(invoke.ptr(), MX_INVOKE_CAPSULE, MX_INVOKE_MAJOR, MX_INVOKE_MINOR,
                                                   "mx-kvstore");
    });
  }

  void sum(const Handles& sources, const Handles& targets, int32_t priority) const {
    translated([&] {
      const GilRelease released;
      push_sum(tables_, arrays_of(sources), arrays_of(targets), priority);
    });
  }
  void compress(int bits, float threshold, uintptr_t gradient, uintptr_t residual, uintptr_t codes,
                int32_t priority) const {
    translated([&] {
      const GilRelease released;
      push_compress(tables_, code_of(bits), threshold, array_of(gradient), array_of(residual), array_of(codes),
                    priority);
    });
  }
  void expand(int bits, float threshold, const Handles& codes, uintptr_t target, int32_t priority) const {
    translated([&] {
      const GilRelease released;
      push_expand(tables_, code_of(bits), threshold, arrays_of(codes), array_of(target), priority);
    });
  }

 private:
  Tables tables_;
};

}  // namespace
}  // namespace mx::kv

PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  using namespace mx::kv;
  module.doc() = "Native parts of mx_kvstore: sums of arrays and gradient compression.";
  mx::translate_errors();
  module.def("compress", &compress_memory, py::arg("bits"), py::arg("threshold"), py::arg("gradient").noconvert(),
             py::arg("residual").noconvert(), py::arg("codes").noconvert());
  module.def("expand", &expand_memory, py::arg("bits"), py::arg("threshold"), py::arg("codes").noconvert(),
             py::arg("out").noconvert(), py::arg("add") = false);
  py::class_<Loops>(module, "Loops")
      .def(py::init<const py::object&, const py::object&>(), py::arg("engine"), py::arg("invoke"))
      .def("sum", &Loops::sum, py::arg("sources"), py::arg("targets"), py::arg("priority"))
      .def("compress", &Loops::compress, py::arg("bits"), py::arg("threshold"), py::arg("gradient"),
           py::arg("residual"), py::arg("codes"), py::arg("priority"))
      .def("expand", &Loops::expand, py::arg("bits"), py::arg("threshold"), py::arg("codes"), py::arg("target"),
           py::arg("priority"));
  bind_transports(module);
  bind_exchange(module);
  bind_neighbours(module);
  bind_memory(module);
  mx::refuse_uninitialised(module);
}
