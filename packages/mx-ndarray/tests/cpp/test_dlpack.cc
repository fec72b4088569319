// SPDX-License-Identifier: Apache-2.0
//
// What DLPack calls things: which strides are row-major and contiguous, types and devices.
#include "dlpack.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "mx_core/native_tests.hpp"
#include "mx_core/types.hpp"

using namespace mx::nd;

namespace {

bool contiguous(std::vector<int64_t> shape, std::vector<int64_t> strides) {
  CHECK(shape.size() == strides.size());
  const auto ndim = static_cast<int32_t>(shape.size());
  // what lies around both must not be looked at
  for (std::vector<int64_t>* list : {&shape, &strides}) {
    list->insert(list->begin(), 12345);
    list->push_back(54321);
  }
  return is_contiguous({nullptr, {kDLCPU, 0}, ndim, {2, 32, 1}, shape.data() + 1, strides.data() + 1, 0});
}

void strides() {
  CHECK(contiguous({}, {}) && contiguous({3}, {1}) && contiguous({2, 3}, {3, 1}));
  CHECK(contiguous({2, 3, 4}, {12, 4, 1}));
  CHECK(!contiguous({3}, {2}) && !contiguous({3}, {-1}) && !contiguous({3}, {0}));
  CHECK(!contiguous({2, 3}, {1, 2}) && !contiguous({2, 3}, {4, 1}) && !contiguous({2, 3}, {3, 2}));
  CHECK(!contiguous({2, 3, 4}, {4, 8, 1}) && !contiguous({2, 3, 4}, {24, 4, 1}));
  // the stride of one element is never taken
  CHECK(contiguous({1}, {7}) && contiguous({2, 1, 3}, {3, 99, 1}) && contiguous({1, 3}, {-5, 1}));
  CHECK(!contiguous({1, 3}, {3, 2}));
  // nor any where there is no element
  CHECK(contiguous({0}, {5}) && contiguous({2, 0, 3}, {9, 9, 1}) && contiguous({0, 3}, {8, 1}));
  int64_t shape[] = {2, 3};
  CHECK(is_contiguous({nullptr, {kDLCPU, 0}, 2, {2, 32, 1}, shape, nullptr, 0}));
}

void every_type_has_a_name_of_its_size() {
  for (int32_t dtype = 0; dtype <= MX_COMPLEX128; ++dtype) {
    const DLDataType type = dlpack_type(dtype);
    CHECK(type.bits == 8 * mx::item_size(dtype) && type.lanes == 1 && dtype_of(type) == dtype);
    const std::string name = mx::type_name(dtype);
    const std::pair<const char*, int> codes[] = {{"int", 0}, {"uint", 1}, {"float", 2}, {"bfloat", 4},
                                                 {"complex", 5}, {"bool", 6}};
    for (const auto& [kind, code] : codes) {
      if (name.substr(0, name.find_first_of("0123456789")) == kind) CHECK(type.code == code);
    }
  }
}

void types_without_a_counterpart_are_refused() {
  for (const int32_t dtype : {-1, MX_COMPLEX128 + 1}) {
    CHECK(test::error_of([=] { dlpack_type(dtype); }, MX_ERROR_DTYPE) == "[dlpack] unknown type");
  }
  CHECK(test::error_of([] { dtype_of({0, 4, 1}); }, MX_ERROR_DTYPE) ==
        "[from_dlpack] element type code 0 of 4 bits is not known");
  CHECK(test::error_of([] { dtype_of({3, 64, 1}); }, MX_ERROR_DTYPE) ==
        "[from_dlpack] element type code 3 of 64 bits is not known");
  test::error_of([] { dtype_of({2, 32, 4}); }, MX_ERROR_DTYPE);  // vectors of four
}

void places() {
  const auto there = [](mx_context context, int32_t type, int32_t id) {
    const DLDevice device = dlpack_device(context);
    return device.device_type == type && device.device_id == id;
  };
  CHECK(there({MX_CPU, 0}, kDLCPU, 0) && there({MX_CPU, 3}, kDLCPU, 0) && there({MX_CPU_SHARED, 1}, kDLCPU, 0));
  CHECK(there({MX_CPU_PINNED, 2}, kDLCUDAHost, 0) && there({MX_GPU, 2}, kDLCUDA, 2));
  CHECK(there({MX_FIRST_PLUGIN_DEVICE, 1}, 0, 0));
  const auto back = [](DLDevice device, int32_t type, int32_t id) {
    const mx_context context = context_of(device);
    return context.type == type && context.id == id;
  };
  CHECK(back({kDLCPU, 4}, MX_CPU, 0) && back({kDLCUDAHost, 4}, MX_CPU_PINNED, 0));
  CHECK(back({kDLCUDA, 4}, MX_GPU, 4) && back({kDLCUDAManaged, 1}, MX_GPU, 1));
  CHECK(test::error_of([] { context_of({8, 0}); }, MX_ERROR_UNSUPPORTED) ==
        "[from_dlpack] device type 8 is not known");
}

}  // namespace

int main() {
  strides();
  every_type_has_a_name_of_its_size();
  types_without_a_counterpart_are_refused();
  places();
}
