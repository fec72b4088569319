// SPDX-License-Identifier: Apache-2.0
#include "kernel_table.hpp"

#include <cxxabi.h>

#include <charconv>

#include "mx_core/failure.hpp"
#include "tensor_size.hpp"

namespace mx::core {
namespace {

std::vector<mx_tensor> describe(const std::vector<TensorSpec>& specs, const Call& call) {
  std::vector<mx_tensor> tensors;
  tensors.reserve(specs.size());
  for (const TensorSpec& spec : specs) {
    mx_tensor tensor{};
    tensor.shape = spec.shape.data();
    tensor.bytes = tensor_bytes(call.op, spec.dtype, spec.shape);
    tensor.context = call.context;
    tensor.dtype = spec.dtype;
    tensor.ndim = static_cast<int32_t>(spec.shape.size());
    tensors.push_back(tensor);
  }
  return tensors;
}

void check_head(const mx_table_head& head, const char* interface, size_t bytes) {
  if (head.major == MX_KERNEL_MAJOR && head.size >= bytes) return;
  throw Error(MX_ERROR_ABI, std::string("mx-core uses interface ") + interface + " " +
                                std::to_string(MX_KERNEL_MAJOR) + ".x (at least " + std::to_string(bytes) +
                                " bytes), the plug-in offers " + std::to_string(head.major) + "." +
                                std::to_string(head.minor) + " (" + std::to_string(head.size) +
                                " bytes): build it against the installed mx-core");
}

}  // namespace

bool parse_number(const std::string& text, double* number) {
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, *number);
  return status == std::errc{} && stop == end && !text.empty();
}

void check_plan(const mx_plan& plan) {
  check_head(plan.head, MX_PLAN_CAPSULE, MX_PLAN_SIZE_1_0);
  if (plan.run == nullptr || plan.retain == nullptr || plan.release == nullptr) {
    throw Error(MX_ERROR_ABI, "a plan lacks run, retain or release");
  }
  if (plan.n_scratch != 0 && plan.scratch_bytes == nullptr) {
    throw Error(MX_ERROR_ABI, "a plan has scratch without sizes");
  }
}

void check_kernel_table(const mx_kernel_api& table) {
  check_head(table.head, MX_KERNEL_CAPSULE, MX_KERNEL_SIZE_1_0);
  if (table.prepare == nullptr) throw Error(MX_ERROR_ABI, "a kernel table lacks prepare");
}

mx_plan* prepare(const mx_kernel_api& table, const Call& call) {
  check_kernel_table(table);
  std::vector<mx_param> params;
  params.reserve(call.params.size());
  for (const auto& [name, text] : call.params) {
    mx_param param{};
    param.name = name.c_str();
    param.text = text.c_str();
    param.is_number = parse_number(text, &param.number) ? 1 : 0;
    params.push_back(param);
  }
  const std::vector<mx_tensor> inputs = describe(call.inputs, call);
  const std::vector<mx_tensor> outputs = describe(call.outputs, call);
  mx_signature signature{};
  signature.size = sizeof signature;
  signature.is_train = call.is_train ? 1 : 0;
  signature.context = call.context;
  signature.params = params.data();
  signature.inputs = inputs.data();
  signature.outputs = outputs.data();
  signature.n_params = static_cast<uint32_t>(params.size());
  signature.n_inputs = static_cast<uint32_t>(inputs.size());
  signature.n_outputs = static_cast<uint32_t>(outputs.size());

  mx_plan* plan = nullptr;
  mx_error error{};
  int32_t status = MX_OK;
  try {
    status = table.prepare(table.self, &signature, &plan, &error);
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (const std::exception& thrown) {  // C tables must not throw; those that do are set aside
    throw Error(MX_ERROR_ABI, std::string("prepare threw a C++ exception: ") + thrown.what());
  } catch (...) {
    throw Error(MX_ERROR_ABI, "prepare threw a C++ exception");
  }
  if (status == MX_ERROR_UNSUPPORTED) return nullptr;
  if (status != MX_OK && error.message[0] == '\0') {
    throw Error(static_cast<mx_status>(status),
                "[" + call.op + "] prepare failed with code " + std::to_string(status) + " and no message");
  }
  check(status, error);
  if (plan == nullptr) throw Error(MX_ERROR_ABI, "prepare gave no plan");
  check_plan(*plan);
  return plan;
}

}  // namespace mx::core
