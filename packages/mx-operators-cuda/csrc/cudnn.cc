// SPDX-License-Identifier: Apache-2.0
#include "cudnn.hpp"

#include <dlfcn.h>

#include <atomic>
#include <memory>

#include "mx_core/failure.hpp"

namespace mx::cuda::dnn {
namespace {

constexpr size_t kOldest = 90000, kNewest = 100000;  // 9.x

struct Library {
  Functions functions;
  Bound bound[64];
};
std::atomic<Library*> loaded{nullptr};  // never unloaded

template <class F>
void find(void* library, const std::string& path, const char* symbol, F* function) {
  *function = reinterpret_cast<F>(::dlsym(library, symbol));
  if (*function == nullptr) throw Error(MX_ERROR, "[gpu] cuDNN: " + path + " has no " + symbol);
}

}  // namespace

size_t load(const std::string& path) {
  static std::mutex loading;
  const std::lock_guard<std::mutex> lock(loading);
  if (loaded.load() != nullptr) return loaded.load()->functions.version();
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(MX_ERROR, std::string("[gpu] cuDNN: ") + ::dlerror());
  auto made = std::make_unique<Library>();
  Functions& f = made->functions;
  find(library, path, "cudnnGetVersion", &f.version);
  find(library, path, "cudnnGetErrorString", &f.status_text);
  find(library, path, "cudnnGetLastErrorString", &f.last_error);
  find(library, path, "cudnnCreate", &f.create);
  find(library, path, "cudnnSetStream", &f.set_stream);
  find(library, path, "cudnnBackendCreateDescriptor", &f.make);
  find(library, path, "cudnnBackendDestroyDescriptor", &f.destroy);
  find(library, path, "cudnnBackendFinalize", &f.finalize);
  find(library, path, "cudnnBackendSetAttribute", &f.set);
  find(library, path, "cudnnBackendGetAttribute", &f.get);
  find(library, path, "cudnnBackendExecute", &f.execute);
  find(library, path, "cudnnCreateRNNDescriptor", &f.rnn.make);
  find(library, path, "cudnnDestroyRNNDescriptor", &f.rnn.destroy);
  find(library, path, "cudnnSetRNNDescriptor_v8", &f.rnn.set);
  find(library, path, "cudnnCreateRNNDataDescriptor", &f.rnn.make_data);
  find(library, path, "cudnnDestroyRNNDataDescriptor", &f.rnn.destroy_data);
  find(library, path, "cudnnSetRNNDataDescriptor", &f.rnn.set_data);
  find(library, path, "cudnnCreateTensorDescriptor", &f.rnn.make_tensor);
  find(library, path, "cudnnDestroyTensorDescriptor", &f.rnn.destroy_tensor);
  find(library, path, "cudnnSetTensorNdDescriptor", &f.rnn.set_tensor);
  find(library, path, "cudnnGetRNNWeightSpaceSize", &f.rnn.parameter_bytes);
  find(library, path, "cudnnGetRNNWeightParams", &f.rnn.parameter);
  find(library, path, "cudnnGetRNNTempSpaceSizes", &f.rnn.space);
  find(library, path, "cudnnRNNForward", &f.rnn.forward);
  find(library, path, "cudnnRNNBackwardData_v8", &f.rnn.backward_data);
  find(library, path, "cudnnRNNBackwardWeights_v8", &f.rnn.backward_parameters);
  const size_t version = f.version();
  if (version < kOldest || version >= kNewest) {
    throw Error(MX_ERROR, "[gpu] cuDNN: " + path + " has version " + std::to_string(version) + ", 9 is needed");
  }
  loaded.store(made.release());
  return version;
}

const Functions& functions() {
  const Library* library = loaded.load(std::memory_order_acquire);
  if (library == nullptr) throw Error(MX_ERROR, "[gpu] cuDNN is not loaded");
  return library->functions;
}

std::string describe(Status status) {
  char text[512] = "";
  functions().last_error(text, sizeof text);
  text[sizeof text - 1] = '\0';
  std::string said = std::string(functions().status_text(status)) + " (" + std::to_string(status) + ")";
  if (text[0] != '\0') said += std::string(": ") + text;
  return said;
}

void check(Status status, const std::string& where, const char* what) {
  if (status == kOk) return;
  throw Error(unsupported(status) ? MX_ERROR_UNSUPPORTED : exhausted(status) ? MX_ERROR_MEMORY : MX_ERROR,
              "[" + where + "] " + what + ": " + describe(status));
}

Descriptor::Descriptor(Kind kind, const std::string& where) : where_(where) {
  check(functions().make(kind, &pointer_), where_, "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
  if (pointer_ != nullptr) functions().destroy(pointer_);
}

Descriptor& Descriptor::set(Attribute attribute, Type type, int64_t count, const void* values) {
  const Status status = functions().set(pointer_, attribute, type, count, values);
  if (status != kOk) {
    check(status, where_, ("cudnnBackendSetAttribute(" + std::to_string(attribute) + ")").c_str());
  }
  return *this;
}

Descriptor& Descriptor::set(Attribute attribute, const std::vector<int64_t>& values) {
  return set(attribute, kInt64, static_cast<int64_t>(values.size()), values.data());
}

Descriptor& Descriptor::set(Attribute attribute, const Descriptor& other) {
  const Pointer pointer = other.get();
  return set(attribute, kDescriptor, 1, &pointer);
}

Descriptor& Descriptor::finalize() {
  check(try_finalize(), where_, "cudnnBackendFinalize");
  return *this;
}

int64_t Descriptor::number(Attribute attribute) const {
  int64_t count = 0, value = 0;
  check(functions().get(pointer_, attribute, kInt64, 1, &count, &value), where_, "cudnnBackendGetAttribute");
  return value;
}

std::vector<int> Descriptor::choices(Attribute attribute, Type type) const {
  std::vector<int> found(static_cast<size_t>(count(attribute, type)));
  int64_t filled = 0;
  if (!found.empty()) {
    check(functions().get(pointer_, attribute, type, static_cast<int64_t>(found.size()), &filled, found.data()),
          where_, "cudnnBackendGetAttribute");
  }
  found.resize(static_cast<size_t>(filled));
  return found;
}

int64_t Descriptor::count(Attribute attribute, Type type) const {
  int64_t found = 0;
  check(functions().get(pointer_, attribute, type, 0, &found, nullptr), where_, "cudnnBackendGetAttribute");
  return found;
}

Handle Bound::made(const std::string& where) {
  if (handle == nullptr) check(functions().create(&handle), where, "cudnnCreate");
  return handle;
}

Handle Bound::on(Stream wanted, const std::string& where) {
  made(where);
  if (stream != wanted) {
    check(functions().set_stream(handle, wanted), where, "cudnnSetStream");
    stream = wanted;
  }
  return handle;
}

Bound& bound(const Gpu& gpu) {
  functions();  // refuses when there is none
  return loaded.load()->bound[gpu.id()];
}

}  // namespace mx::cuda::dnn
