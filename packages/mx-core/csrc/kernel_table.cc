// SPDX-License-Identifier: Apache-2.0
#include "kernel_table.hpp"

#include <charconv>

#include "element_type.hpp"
#include "mx_core/failure.hpp"

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

bool fits(const mx_table_head& head, uint16_t major, uint16_t minor, size_t size) {
  return head.major == major && head.minor >= minor && head.size >= size;
}

}  // namespace

bool parse_number(const std::string& text, double* number) {
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, *number);
  return status == std::errc{} && stop == end && !text.empty();
}

void check_plan(const mx_plan& plan) {
  const mx_table_head& head = plan.head;
  if (!fits(head, MX_KERNEL_MAJOR, MX_KERNEL_MINOR, sizeof(mx_plan))) {
    throw Error(MX_ERROR_ABI, "[mx-core] built for plan " + std::to_string(MX_KERNEL_MAJOR) + "." +
                                  std::to_string(MX_KERNEL_MINOR) + " (" +
                                  std::to_string(sizeof(mx_plan)) + " bytes), the kernel offers " +
                                  std::to_string(head.major) + "." + std::to_string(head.minor) +
                                  " (" + std::to_string(head.size) + " bytes)");
  }
  if (plan.run == nullptr || plan.retain == nullptr || plan.release == nullptr) {
    throw Error(MX_ERROR_ABI, "[mx-core] a plan lacks run, retain or release");
  }
}

mx_plan* prepare(const mx_kernel_api& table, const Call& call) {
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
  const int32_t status = table.prepare(table.self, &signature, &plan, &error);
  if (status == MX_ERROR_UNSUPPORTED) return nullptr;
  check(status, error);
  if (plan == nullptr) throw Error(MX_ERROR, "[" + call.op + "] a kernel's prepare gave no plan");
  check_plan(*plan);
  return plan;
}

}  // namespace mx::core
