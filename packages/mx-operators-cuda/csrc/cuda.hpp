// SPDX-License-Identifier: Apache-2.0
//
// The part of the CUDA driver's C interface that is used here, declared by us: building needs no
// CUDA toolkit, and a machine without a driver can load this library.
//
// Source: CUDA Driver API reference, 12.0; symbols carry the suffix of the version declared here.
#pragma once

#include <cstddef>

namespace mx::cuda {

using Result = int;  // CUresult
using Ordinal = int;  // CUdevice
using Address = unsigned long long;  // CUdeviceptr
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;

enum : Result {
  kSuccess = 0,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kNoDevice = 100,
  kNotReady = 600,
  kPeerAccessAlreadyEnabled = 704,
};
// Errors after which a context answers nothing else: a kernel died (700, 702, 714 to 719).
inline bool lost(Result result) {
  return result == 700 || result == 702 || (result >= 714 && result <= 719);
}

enum : int {  // CUdevice_attribute
  kMultiprocessors = 16,
  kMajor = 75,
  kMinor = 76,
};
constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventBlockingSync = 1, kEventDisableTiming = 2;
constexpr unsigned kHostAllocPortable = 1;
constexpr int kCaptureRelaxed = 2;  // other threads may do what they like meanwhile

// X(name, symbol, parameters)
#define MX_CUDA_FUNCTIONS(X)                                                                       \
  X(init, "cuInit", (unsigned flags))                                                              \
  X(driver_version, "cuDriverGetVersion", (int* version))                                          \
  X(error_name, "cuGetErrorName", (Result result, const char** text))                              \
  X(error_text, "cuGetErrorString", (Result result, const char** text))                            \
  X(device_count, "cuDeviceGetCount", (int* count))                                                \
  X(device_get, "cuDeviceGet", (Ordinal * device, int ordinal))                                    \
  X(device_name, "cuDeviceGetName", (char* name, int length, Ordinal device))                      \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, Ordinal device))         \
  X(primary_retain, "cuDevicePrimaryCtxRetain", (Context * context, Ordinal device))               \
  X(push_current, "cuCtxPushCurrent_v2", (Context context))                                        \
  X(pop_current, "cuCtxPopCurrent_v2", (Context * context))                                        \
  X(synchronize, "cuCtxSynchronize", ())                                                           \
  X(can_access_peer, "cuDeviceCanAccessPeer", (int* can, Ordinal device, Ordinal peer))            \
  X(enable_peer, "cuCtxEnablePeerAccess", (Context peer, unsigned flags))                          \
  X(memory_info, "cuMemGetInfo_v2", (size_t* free, size_t* total))                                 \
  X(alloc, "cuMemAlloc_v2", (Address * data, size_t bytes))                                        \
  X(free, "cuMemFree_v2", (Address data))                                                          \
  X(host_alloc, "cuMemHostAlloc", (void** data, size_t bytes, unsigned flags))                     \
  X(host_free, "cuMemFreeHost", (void* data))                                                      \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2",                                                        \
    (Address to, const void* from, size_t bytes, Stream stream))                                   \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void* to, Address from, size_t bytes, Stream stream))   \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2",                                                        \
    (Address to, Address from, size_t bytes, Stream stream))                                       \
  X(copy_to_peer, "cuMemcpyPeerAsync",                                                             \
    (Address to, Context to_context, Address from, Context from_context, size_t bytes,             \
     Stream stream))                                                                               \
  X(stream_create, "cuStreamCreate", (Stream * stream, unsigned flags))                            \
  X(stream_wait, "cuStreamWaitEvent", (Stream stream, Event event, unsigned flags))                \
  X(event_create, "cuEventCreate", (Event * event, unsigned flags))                                \
  X(event_record, "cuEventRecord", (Event event, Stream stream))                                   \
  X(event_query, "cuEventQuery", (Event event))                                                    \
  X(event_wait, "cuEventSynchronize", (Event event))                                               \
  X(capture_begin, "cuStreamBeginCapture_v2", (Stream stream, int mode))                           \
  X(capture_end, "cuStreamEndCapture", (Stream stream, Graph * graph))                             \
  X(graph_instantiate, "cuGraphInstantiateWithFlags",                                              \
    (GraphExec * executable, Graph graph, unsigned long long flags))                               \
  X(graph_launch, "cuGraphLaunch", (GraphExec executable, Stream stream))                          \
  X(graph_exec_destroy, "cuGraphExecDestroy", (GraphExec executable))                              \
  X(graph_destroy, "cuGraphDestroy", (Graph graph))                                                \
  X(module_load, "cuModuleLoadData", (Module * module, const void* image))                         \
  X(module_function, "cuModuleGetFunction", (Function * function, Module module, const char* name)) \
  X(function_set, "cuFuncSetAttribute", (Function function, int attribute, int value))              \
  X(launch, "cuLaunchKernel",                                                                      \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,  \
     void** extra))

struct Functions {
#define MX_CUDA_MEMBER(name, symbol, parameters) Result(*name) parameters = nullptr;
  MX_CUDA_FUNCTIONS(MX_CUDA_MEMBER)
#undef MX_CUDA_MEMBER
};

}  // namespace mx::cuda
