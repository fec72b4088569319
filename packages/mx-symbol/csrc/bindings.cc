// SPDX-License-Identifier: Apache-2.0
#include "mx_core/pybind.hpp"

#include <pybind11/stl.h>

#include <cstring>

#include "binding.hpp"
#include "bindings_assembly.hpp"
#include "bindings_calls.hpp"
#include "bindings_graph.hpp"
#include "bindings_memory.hpp"
#include "mx_core/pybind_holder.hpp"

namespace mx::symbol {
namespace {

using BranchTuple = std::tuple<uint32_t, uint32_t, std::vector<uint32_t>>;

std::shared_ptr<Program> make_program(const py::object& engine, const py::object& invoke,
                                      const py::object& random, std::pair<int32_t, int32_t> context,
                                      const std::string& name) {
  return translated([&] {
    Tables tables;
    tables.engine = import_plugin_table<mx_engine_api>(engine.ptr(), MX_ENGINE_CAPSULE, MX_ENGINE_MAJOR,
                                                       MX_ENGINE_API_SIZE_1_0, "mx-symbol");
    tables.invoke = import_table<mx_invoke_api>(invoke.ptr(), MX_INVOKE_CAPSULE, MX_INVOKE_MAJOR,
                                                MX_INVOKE_MINOR, "mx-symbol");
    if (!random.is_none()) {
      tables.random = import_table<mx_resource_api>(random.ptr(), MX_RESOURCE_CAPSULE,
                                                    MX_RESOURCE_MAJOR, MX_RESOURCE_MINOR,
                                                    "mx-symbol");
    }
    const mx_context place{context.first, context.second};
    return std::make_shared<Program>(tables, place, name);
  });
}

uint32_t add_slot(Program& program, int64_t array, size_t offset, int32_t dtype, size_t item_size,
                  std::vector<int64_t> shape) {
  return translated([&] {
    Slot slot;
    slot.array = array < 0 ? kNoArray : static_cast<uint32_t>(array);
    slot.offset = offset;
    slot.dtype = dtype;
    slot.shape = std::move(shape);
    return program.add_slot(std::move(slot), item_size);
  });
}

void add_node(Program& program, std::string name, const py::capsule& call,
              std::vector<uint32_t> inputs, std::vector<uint32_t> outputs, std::vector<uint8_t> req,
              std::vector<uint32_t> mutated, std::vector<uint32_t> unread,
              std::vector<double> scalars, bool is_train, bool prepared,
              double microseconds, uint32_t order) {
  translated([&] {
    program.add_node({std::move(name), call_of(call), std::move(inputs), std::move(outputs),
                      std::move(req), std::move(mutated), std::move(unread), std::move(scalars),
                      is_train, prepared, microseconds, order});
  });
}

// The native arrays of a list of NDArrays, which the caller keeps.
std::vector<mx_array*> natives_of(const py::list& arrays) {
  const py::object bytes = handles_of(arrays);
  std::vector<mx_array*> natives(static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr())) / sizeof(mx_array*));
  std::memcpy(natives.data(), PyBytes_AS_STRING(bytes.ptr()), natives.size() * sizeof(mx_array*));
  return natives;
}

py::object bind(const std::shared_ptr<Program>& program, const py::list& arrays,
                const std::shared_ptr<Memo>& memo) {
  return translated([&] { return new_object(std::make_shared<Binding>(program, natives_of(arrays), memo)); });
}

void push(Binding& binding, uint32_t part, int32_t priority) {
  translated([&] {
    const GilRelease released;
    binding.push(part, priority);
  });
}

}  // namespace

PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  module.doc() = "Bound graphs as flat programs, natively.";
  py::class_<Program, std::shared_ptr<Program>>(module, "Program", py::module_local(),
                                                "A flat list of prepared calls over slots.")
      .def("__init__", mx::init(&make_program), py::detail::is_new_style_constructor(), py::arg("engine"),
           py::arg("invoke"), py::arg("random"), py::arg("context"), py::arg("name"))
      .def("add_array", [](Program& program, bool arena) {
             return translated([&] { return program.add_array(arena); });
           },
           py::arg("arena") = false, "A new array number.")
      .def("add_slot", &add_slot, py::arg("array"), py::arg("offset"), py::arg("dtype"),
           py::arg("item_size"), py::arg("shape"),
           "A value at a byte offset of an array, or (array -1) without memory; returns its number.")
      .def("add_node", &add_node, py::arg("name"), py::arg("call"), py::arg("inputs"),
           py::arg("outputs"), py::arg("req"), py::arg("mutated"), py::arg("unread"),
           py::arg("scalars"), py::arg("is_train"), py::arg("prepared") = false,
           py::arg("microseconds") = 0.0, py::arg("order") = 0u,
           "Appends a call; `order` is its place in the schedule where branches change that.")
      .def("seal",
           [](Program& program, const std::vector<uint32_t>& ends, const std::vector<uint32_t>& limits,
              const std::vector<BranchTuple>& branches) {
             translated([&] {
               std::vector<Branch> made;
               for (const auto& [end, threads, after] : branches) made.push_back({end, threads, after});
               program.seal(ends, limits, std::move(made));
             });
           },
           py::arg("ends"), py::arg("limits") = std::vector<uint32_t>{},
           py::arg("branches") = std::vector<BranchTuple>{},
           "Fixes the program; part k ends before node ends[k] and has segments of at most limits[k] nodes. "
           "A branch (end, threads, after) has the nodes below its end that no earlier one has.")
      .def("segments",
           [](const Program& program, uint32_t part) {
             return translated([&] { return program.part(part).end - program.part(part).begin; });
           },
           py::arg("part"), "Engine operations of a part.")
      .def("memo",
           [](const Program& program) {
             return translated([&] { return new_object(std::make_shared<Memo>(program)); });
           },
           "What bindings share so that prepared nodes run once for all of them.")
      .def("bind", &bind, py::arg("arrays"), py::arg("memo") = nullptr,
           "The program on NDArrays, one per array number.");
  py::class_<Memo, std::shared_ptr<Memo>>(module, "Memo", py::module_local(),
                                          "From what prepared nodes were computed last.");
  py::class_<Binding, std::shared_ptr<Binding>>(module, "Binding", py::module_local(),
                                                "A program with arrays.")
      .def("push", &push, py::arg("part"), py::arg("priority") = 0,
           "Pushes a part to the engine; asynchronous.");
  bind_calls(module);
  bind_inference(module);
  bind_gradient(module);
  bind_graph(module);
  bind_fusion(module);
  bind_schedule(module);
  bind_assembly(module);
  bind_memory(module);
  bind_collector(module);
  mx::refuse_uninitialised(module);
}

}  // namespace mx::symbol
