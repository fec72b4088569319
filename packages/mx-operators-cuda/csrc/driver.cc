// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>

#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

std::atomic<bool> initialized{false};
std::atomic<bool> is_forked{false};

[[maybe_unused]] const int installed =
    ::pthread_atfork(nullptr, nullptr, [] { is_forked = initialized.load(); });

// The first symbol that is missing, or null.
const char* load(void* library, Functions& cuda) {
#define MX_CUDA_LOAD(name, symbol, parameters)                                   \
  cuda.name = reinterpret_cast<decltype(cuda.name)>(::dlsym(library, symbol)); \
  if (cuda.name == nullptr) return symbol;
  MX_CUDA_FUNCTIONS(MX_CUDA_LOAD)
#undef MX_CUDA_LOAD
  return nullptr;
}

Driver open() {
  Driver made;
  const char* chosen = std::getenv("MX_CUDA_DRIVER");
  const std::string path = chosen != nullptr && *chosen != '\0' ? chosen : kLibrary;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    made.problem = "no NVIDIA driver was found (there is no " + path + ")";
    return made;
  }
  if (const char* symbol = load(library, made.cuda)) {
    made.problem = "the NVIDIA driver is too old (" + path + " has no " + symbol + ")";
    return made;
  }
  if (made.cuda.driver_version(&made.version) != kSuccess) made.version = 0;
  initialized = true;
  Result result = made.cuda.init(0);
  if (result == kSuccess) result = made.cuda.device_count(&made.count);
  if (result != kSuccess || made.count <= 0) {
    made.count = 0;
    made.problem = "the NVIDIA driver found no GPU";
    if (result != kSuccess) made.problem += " (" + describe(made.cuda, result) + ")";
  }
  return made;
}

}  // namespace

const Driver& driver() {
  static const auto* the_driver = new Driver(open());  // leaked: threads outlive static destruction
  return *the_driver;
}

bool forked() noexcept { return is_forked.load(std::memory_order_relaxed); }

const Functions& functions() {
  if (forked()) {
    throw Error(MX_ERROR,
                "[gpu] CUDA cannot be used in a process forked from one that used it; start workers "
                "with multiprocessing's method 'spawn', or fork before the first use of a GPU");
  }
  const Driver& found = driver();
  if (!found.problem.empty()) throw Error(MX_ERROR, "[gpu] " + found.problem);
  return found.cuda;
}

std::string describe(const Functions& cuda, Result result) {
  const char *name = nullptr, *text = nullptr;
  if (cuda.error_name(result, &name) != kSuccess || name == nullptr) name = "unknown error";
  if (cuda.error_text(result, &text) != kSuccess || text == nullptr) text = "";
  std::string said = std::string(name) + " (" + std::to_string(result) + ")";
  if (*text != '\0') said += std::string(": ") + text;
  return said;
}

void check(Result result, const std::string& where, const char* what) {
  if (result == kSuccess) return;
  std::string text = "[" + where + "] " + what + ": " + describe(driver().cuda, result);
  if (lost(result)) text += "; this process cannot use the GPU any more, start it again";
  throw Error(result == kOutOfMemory ? MX_ERROR_MEMORY : MX_ERROR, text);
}

std::string name_of(mx_context context) {
  const char* type = context.type == MX_GPU          ? "gpu"
                     : context.type == MX_CPU        ? "cpu"
                     : context.type == MX_CPU_PINNED ? "cpu_pinned"
                                                     : "device";
  return std::string(type) + "(" + std::to_string(context.id) + ")";
}

}  // namespace mx::cuda
