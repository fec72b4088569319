// SPDX-License-Identifier: Apache-2.0
//
// A CUDA driver for tests, on a machine without a GPU.
//
// Device memory is host memory whose addresses carry a mark, so that host code that touches it dies.
// Every copy is checked against the allocations, is queued, and takes effect when its stream gets to
// it: host memory is read then, not at the call, which is later than CUDA may.  Kernels are shared
// libraries that fake_nvrtc.cc built of the generated source.  What CUDA leaves undefined (a wrong
// current context, a freed address) is an error here or shows as garbage.
#include "fake_cuda.hpp"

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fake_stream.hpp"

namespace fake {

struct Device {
  int ordinal = 0;
  size_t used = 0;
};

namespace {

enum { kOk = 0, kInvalid = 1, kNoMemory = 2, kUninitialized = 3, kNoDevice = 100, kBadImage = 200,
       kBadContext = 201, kNotFound = 500, kNotReady = 600, kIllegalAddress = 700, kPeerTwice = 704,
       kCaptureUnsupported = 900, kCaptureUnmatched = 903, kCaptureIsolation = 905 };

// extents of the grid and of a block
using Extents = std::array<unsigned, 6>;
// functions of a library of fake_nvrtc.cc
using Run = int (*)(const unsigned* extents, size_t shared_bytes, void** arguments);
using Sizes = int (*)(size_t*);

struct Kernel {
  Device* device;
  std::function<int(const Extents&, size_t, void**)> run;
  std::vector<size_t> sizes;
  size_t shared_bytes = 48 << 10;  // that a launch may ask for
};
struct Module {
  Device* device;
  std::string path;  // empty: registered kernels
};
struct Registered {
  void (*run)(unsigned, unsigned, void**);
  std::vector<size_t> sizes;
};
struct Allocation {
  Device* device;
  size_t bytes;
};
struct Failure {
  int result;
  int skip;
};

struct World {
  std::mutex mutex;  // guards all that follows
  pid_t owner = 0;   // the process that called cuInit
  int devices_wanted = 2;
  size_t capacity = size_t{256} << 20;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<unsigned long long, Allocation> allocations;  // by marked address
  std::map<void*, size_t> pinned;
  std::set<std::pair<int, int>> peers;
  std::map<std::string, Failure, std::less<>> failures;
  std::map<std::string, long, std::less<>> calls;
  std::map<std::string, Registered> registered;
  std::vector<std::unique_ptr<Module>> modules;  // never unloaded
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<Stream*> streams;  // never destroyed
  int sticky = 0;
};

World& world() {
  static auto* the_world = new World;
  return *the_world;
}
thread_local std::vector<Device*> current;

long number(const char* variable, long otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::atol(text) : otherwise;
}

using Guard = std::lock_guard<std::mutex>;

bool fatal(int result) { return result == 700 || (result >= 714 && result <= 719); }

// Locked: an injected failure of `symbol`, if its turn has come.
int injected(const char* symbol) {
  World& w = world();
  const auto found = w.failures.find(symbol);
  if (found == w.failures.end() || found->second.skip-- > 0) return kOk;
  const int result = found->second.result;
  w.failures.erase(found);
  if (fatal(result)) w.sticky = result;
  return result;
}

// At the head of every function: counts the call; what must be returned instead of doing it.
int entering(const char* symbol, bool needs_context = false) {
  World& w = world();
  const Guard lock(w.mutex);
  auto calls = w.calls.find(symbol);
  if (calls == w.calls.end()) calls = w.calls.emplace(symbol, 0).first;
  ++calls->second;
  if (w.owner != ::getpid()) return kUninitialized;
  if (w.sticky != 0) return w.sticky;
  if (needs_context && current.empty()) return kBadContext;
  return injected(symbol);
}

// Adds up the processor time that the calling thread spends in here, while `fake_cuda_clock` is on.
std::atomic<bool> clocked{false};
thread_local double spent = 0;  // in seconds
class Clock {
 public:
  Clock() : on_(clocked.load(std::memory_order_relaxed)), begin_(on_ ? now() : 0) {}
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  ~Clock() {
    if (on_) spent += now() - begin_ - of_nothing();
  }

 private:
  static double now() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  // What the clock itself takes.
  static double of_nothing() {
    static const double least = [] {
      double found = 1;
      for (int i = 0; i < 1000; ++i) {
        const double begin = now();
        found = std::min(found, now() - begin);
      }
      return found;
    }();
    return least;
  }
  const bool on_;
  const double begin_;
};

#define ENTER(...)    \
  const Clock clock;  \
  if (const int result = entering(__VA_ARGS__)) return result

char* host(unsigned long long address) { return reinterpret_cast<char*>(address & ~kFakeDeviceBit); }

// Locked: `bytes` from `address` lie in one allocation of a device (any device: null).
bool owned(unsigned long long address, size_t bytes, const Device* device) {
  const auto& all = world().allocations;
  auto found = all.upper_bound(address);
  if (found == all.begin()) return false;
  --found;
  return address + bytes <= found->first + found->second.bytes &&
         (device == nullptr || found->second.device == device);
}
bool valid(unsigned long long address, size_t bytes, const Device* device) {
  const Guard lock(world().mutex);
  return owned(address, bytes, device);
}
bool is_host(const void* data) {
  return (reinterpret_cast<unsigned long long>(data) & kFakeDeviceBit) == 0;
}
void poison(int result) {
  const Guard lock(world().mutex);
  if (world().sticky == 0) world().sticky = result;
}
int sticky() {
  const Guard lock(world().mutex);
  return world().sticky;
}

// Queues a copy of memory that both sides still have when its turn comes.
void queue_copy(Stream* stream, char* to, const char* from, size_t bytes,
                std::function<bool()> still_valid) {
  stream->push([=] {
    if (sticky() != 0) return;
    if (still_valid()) {
      std::memmove(to, from, bytes);
    } else {
      poison(kIllegalAddress);
    }
  });
}

const std::map<int, std::pair<const char*, const char*>> kErrors = {
    {1, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {2, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {3, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {100, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {200, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {201, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {500, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {700, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {701, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}},
    {719, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
};

}  // namespace
}  // namespace fake

using namespace fake;

extern "C" {

// Of the calling thread, in the functions of this file, while the clock was on.
double fake_cuda_seconds() { return spent; }
void fake_cuda_clock(int on) { clocked = on != 0; }

void fake_delay(long microseconds) { delay_us = microseconds; }
void fake_fail(const char* symbol, int result, int skip) {
  const Guard lock(world().mutex);
  world().failures[symbol] = {result, skip};
}
void fake_heal() {
  const Guard lock(world().mutex);
  world().failures.clear();
  world().sticky = 0;
}
void fake_poison(int result) { poison(result); }
size_t fake_used(int device) {
  const Guard lock(world().mutex);
  return world().devices.at(static_cast<size_t>(device))->used;
}
size_t fake_pinned() {
  const Guard lock(world().mutex);
  size_t total = 0;
  for (const auto& [data, bytes] : world().pinned) total += bytes;
  return total;
}
long fake_calls(const char* symbol) {
  const Guard lock(world().mutex);
  return world().calls[symbol];
}
void fake_enqueue(void* stream, void (*body)(void*), void* argument, void (*destroy)(void*)) {
  const std::shared_ptr<void> held(argument, destroy);
  static_cast<Stream*>(stream)->push([=] { body(held.get()); });
}
int fake_owns(unsigned long long address, size_t bytes) { return valid(address, bytes, nullptr); }
void fake_register(const char* name, void (*run)(unsigned, unsigned, void**), const size_t* sizes,
                   int n) {
  const Guard lock(world().mutex);
  world().registered[name] = {run, {sizes, sizes + n}};
}

int cuInit(unsigned) {
  World& w = world();
  const Guard lock(w.mutex);
  if (w.owner != 0) return w.owner == ::getpid() ? kOk : kUninitialized;
  w.devices_wanted = static_cast<int>(number("FAKE_CUDA_DEVICES", 2));
  w.capacity = static_cast<size_t>(number("FAKE_CUDA_MEMORY", 256L << 20));
  delay_us = number("FAKE_CUDA_DELAY", 0);
  if (w.devices_wanted == 0) return kNoDevice;
  w.owner = ::getpid();
  for (int i = 0; i < w.devices_wanted; ++i) w.devices.push_back(std::make_unique<Device>(Device{i}));
  return kOk;
}
int cuDriverGetVersion(int* version) { *version = 13000; return kOk; }
int cuGetErrorName(int result, const char** text) {
  const auto found = kErrors.find(result);
  if (found == kErrors.end()) return kInvalid;
  *text = found->second.first;
  return kOk;
}
int cuGetErrorString(int result, const char** text) {
  const auto found = kErrors.find(result);
  if (found == kErrors.end()) return kInvalid;
  *text = found->second.second;
  return kOk;
}

// ---- devices and contexts: a context is its device ----

int cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount");
  *count = world().devices_wanted;
  return kOk;
}
int cuDeviceGet(int* device, int ordinal) {
  ENTER("cuDeviceGet");
  *device = ordinal;
  return kOk;
}
int cuDeviceGetName(char* name, int length, int) {
  ENTER("cuDeviceGetName");
  std::strncpy(name, "Fake GPU", static_cast<size_t>(length));
  return kOk;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  ENTER("cuDeviceGetAttribute");
  *value = attribute == 16 ? 4 : attribute == 75 ? 9 : 0;  // multiprocessors, capability 9.0
  return kOk;
}
int cuDevicePrimaryCtxRetain(Device** context, int ordinal) {
  ENTER("cuDevicePrimaryCtxRetain");
  *context = world().devices.at(static_cast<size_t>(ordinal)).get();
  return kOk;
}
int cuCtxPushCurrent_v2(Device* context) {
  ENTER("cuCtxPushCurrent_v2");
  current.push_back(context);
  return kOk;
}
int cuCtxPopCurrent_v2(Device** context) {
  if (current.empty()) return kBadContext;
  *context = current.back();
  current.pop_back();
  return kOk;
}
int cuDeviceCanAccessPeer(int* can, int, int) {
  ENTER("cuDeviceCanAccessPeer");
  *can = 1;
  return kOk;
}
int cuCtxEnablePeerAccess(Device* peer, unsigned) {
  ENTER("cuCtxEnablePeerAccess", true);
  const Guard lock(world().mutex);
  const bool is_new = world().peers.insert({current.back()->ordinal, peer->ordinal}).second;
  return is_new ? kOk : kPeerTwice;
}

// ---- memory: comes full of 0xA5, is overwritten when freed ----

int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  ENTER("cuMemGetInfo_v2", true);
  const Guard lock(world().mutex);
  *total = world().capacity;
  *free_bytes = world().capacity - current.back()->used;
  return kOk;
}
int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  ENTER("cuMemAlloc_v2", true);
  World& w = world();
  const Guard lock(w.mutex);
  Device* device = current.back();
  if (bytes == 0) return kInvalid;
  if (bytes > w.capacity || device->used > w.capacity - bytes) return kNoMemory;
  void* data = nullptr;
  if (::posix_memalign(&data, 512, bytes) != 0) return kNoMemory;
  std::memset(data, 0xA5, bytes);
  *address = reinterpret_cast<unsigned long long>(data) | kFakeDeviceBit;
  w.allocations[*address] = {device, bytes};
  device->used += bytes;
  return kOk;
}
int cuMemFree_v2(unsigned long long address) {
  ENTER("cuMemFree_v2", true);
  World& w = world();
  const Guard lock(w.mutex);
  const auto found = w.allocations.find(address);
  if (found == w.allocations.end()) return kInvalid;
  found->second.device->used -= found->second.bytes;
  std::memset(host(address), 0xDD, found->second.bytes);
  std::free(host(address));
  w.allocations.erase(found);
  return kOk;
}
int cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc", true);
  if (::posix_memalign(data, 4096, bytes) != 0) return kNoMemory;
  const Guard lock(world().mutex);
  world().pinned[*data] = bytes;
  return kOk;
}
int cuMemFreeHost(void* data) {
  ENTER("cuMemFreeHost", true);
  const Guard lock(world().mutex);
  if (world().pinned.erase(data) == 0) return kInvalid;
  std::free(data);
  return kOk;
}

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, Stream* stream) {
  ENTER("cuMemcpyHtoDAsync_v2", true);
  const Device* device = stream->device();
  if (!valid(to, bytes, device) || !is_host(from)) return kInvalid;
  queue_copy(stream, host(to), static_cast<const char*>(from), bytes,
             [=] { return valid(to, bytes, device); });
  return kOk;
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, Stream* stream) {
  ENTER("cuMemcpyDtoHAsync_v2", true);
  const Device* device = stream->device();
  if (!valid(from, bytes, device) || !is_host(to)) return kInvalid;
  queue_copy(stream, static_cast<char*>(to), host(from), bytes,
             [=] { return valid(from, bytes, device); });
  return kOk;
}
static int copy_between(unsigned long long to, const Device* there, unsigned long long from,
                        const Device* here, size_t bytes, Stream* stream) {
  const auto both = [=] { return valid(to, bytes, there) && valid(from, bytes, here); };
  if (!both()) return kInvalid;
  queue_copy(stream, host(to), host(from), bytes, both);
  return kOk;
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes,
                         Stream* stream) {
  ENTER("cuMemcpyDtoDAsync_v2", true);
  return copy_between(to, stream->device(), from, stream->device(), bytes, stream);
}
int cuMemcpyPeerAsync(unsigned long long to, Device* to_context, unsigned long long from,
                      Device* from_context, size_t bytes, Stream* stream) {
  ENTER("cuMemcpyPeerAsync", true);
  return copy_between(to, to_context, from, from_context, bytes, stream);
}

// ---- streams and events ----

int cuStreamCreate(Stream** stream, unsigned) {
  ENTER("cuStreamCreate", true);
  *stream = new Stream(current.back());
  const Guard lock(world().mutex);
  world().streams.push_back(*stream);
  return kOk;
}
int cuCtxSynchronize() {
  ENTER("cuCtxSynchronize", true);
  std::vector<Stream*> streams;
  {
    const Guard lock(world().mutex);
    streams = world().streams;
  }
  std::vector<std::shared_ptr<Point>> ends;
  for (Stream* stream : streams) {
    if (stream->device() != current.back()) continue;
    if (stream->captures()) return kCaptureUnsupported;
    ends.push_back(std::make_shared<Point>());
    stream->push([point = ends.back()] { reach(*point); });
  }
  for (const auto& point : ends) wait_for(*point);
  return sticky();
}
int cuEventCreate(Event** event, unsigned) {
  ENTER("cuEventCreate", true);
  *event = new Event{current.back(), nullptr};
  return kOk;
}
int cuEventRecord(Event* event, Stream* stream) {
  ENTER("cuEventRecord");
  if (event->device != stream->device()) return kInvalid;
  if (stream->captures()) return kCaptureUnsupported;
  const auto point = std::make_shared<Point>();
  {
    const Guard lock(points_mutex());
    event->point = point;
  }
  stream->push([point] { reach(*point); });
  return kOk;
}
static std::shared_ptr<Point> last(Event* event) {
  const Guard lock(points_mutex());
  return event->point;
}
int cuEventQuery(Event* event) {
  ENTER("cuEventQuery");
  const Guard lock(points_mutex());
  return event->point == nullptr || event->point->reached ? kOk : kNotReady;
}
int cuEventSynchronize(Event* event) {
  ENTER("cuEventSynchronize");
  if (const auto point = last(event)) wait_for(*point);
  return sticky();
}
int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  ENTER("cuStreamWaitEvent");
  if (stream->captures()) return kCaptureIsolation;
  if (const auto point = last(event)) stream->push([point] { wait_for(*point); });
  return kOk;
}

// ---- captured streams ----

struct Executable {
  std::shared_ptr<Graph> graph;
};
int cuStreamBeginCapture_v2(Stream* stream, int mode) {
  ENTER("cuStreamBeginCapture_v2", true);
  if (mode != 2) return kInvalid;  // relaxed: threads of the engine take turns
  return stream->begin_capture() ? kOk : kInvalid;
}
int cuStreamEndCapture(Stream* stream, std::shared_ptr<Graph>** graph) {
  ENTER("cuStreamEndCapture", true);
  const auto made = stream->end_capture();
  if (made == nullptr) return kCaptureUnmatched;
  *graph = new std::shared_ptr<Graph>(made);
  return kOk;
}
int cuGraphInstantiateWithFlags(Executable** executable, std::shared_ptr<Graph>* graph, unsigned long long) {
  ENTER("cuGraphInstantiateWithFlags", true);
  *executable = new Executable{*graph};
  return kOk;
}
int cuGraphLaunch(Executable* executable, Stream* stream) {
  ENTER("cuGraphLaunch", true);
  if (stream->captures()) return kCaptureUnsupported;
  stream->push([graph = executable->graph] {  // one call for all of it, as the host of a real one has
    for (const auto& body : graph->bodies) body();
  });
  return kOk;
}
int cuGraphExecDestroy(Executable* executable) {
  ENTER("cuGraphExecDestroy");
  delete executable;
  return kOk;
}
int cuGraphDestroy(std::shared_ptr<Graph>* graph) {
  ENTER("cuGraphDestroy");
  delete graph;
  return kOk;
}

// ---- kernels ----

int cuModuleLoadData(Module** module, const void* image) {
  ENTER("cuModuleLoadData", true);
  const std::string text = static_cast<const char*>(image), head = "FAKE:";
  if (text.compare(0, head.size(), head) != 0) return kBadImage;
  const std::string path = text.substr(head.size());
  const Guard lock(world().mutex);
  auto& all = world().modules;
  all.push_back(std::make_unique<Module>(Module{current.back(), path == "registered" ? "" : path}));
  *module = all.back().get();
  return kOk;
}
static Kernel* keep(Kernel kernel) {
  const Guard lock(world().mutex);
  world().kernels.push_back(std::make_unique<Kernel>(std::move(kernel)));
  return world().kernels.back().get();
}
int cuModuleGetFunction(Kernel** function, Module* module, const char* name) {
  ENTER("cuModuleGetFunction", true);
  if (module->path.empty()) {
    Registered found;
    {
      const Guard lock(world().mutex);
      const auto at = world().registered.find(name);
      if (at == world().registered.end()) return kNotFound;
      found = at->second;
    }
    const auto run = [call = found.run](const Extents& extents, size_t, void** arguments) {
      call(extents[0], extents[3], arguments);
      return 1;
    };
    *function = keep({module->device, run, found.sizes});
    return kOk;
  }
  void* library = ::dlopen(module->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return kBadImage;
  const auto find = reinterpret_cast<int (*)(const char*, Run*, Sizes*)>(::dlsym(library, "fake_kernel"));
  Run run = nullptr;
  Sizes sizes = nullptr;
  if (find == nullptr || find(name, &run, &sizes) == 0) return kNotFound;
  std::vector<size_t> found(static_cast<size_t>(sizes(nullptr)));
  sizes(found.data());
  const auto call = [run](const Extents& extents, size_t shared, void** arguments) {
    return run(extents.data(), shared, arguments);
  };
  *function = keep({module->device, call, found});
  return kOk;
}
int cuFuncSetAttribute(Kernel* kernel, int attribute, int value) {
  ENTER("cuFuncSetAttribute", true);
  if (attribute != 8 || value < 0 || value > 227 << 10) return kInvalid;  // dynamic shared memory of sm_90
  const Guard lock(world().mutex);
  kernel->shared_bytes = static_cast<size_t>(value);
  return kOk;
}
int cuLaunchKernel(Kernel* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream* stream, void** parameters,
                   void**) {
  ENTER("cuLaunchKernel", true);
  const Extents extents{grid_x, grid_y, grid_z, block_x, block_y, block_z};
  for (const unsigned extent : extents) {
    if (extent == 0) return kInvalid;
  }
  if (kernel->device != stream->device() || kernel->device != current.back() || grid_y > 65535 || grid_z > 65535 ||
      size_t{block_x} * block_y * block_z > 1024 || block_z > 64) {
    return kInvalid;
  }
  {
    const Guard lock(world().mutex);
    if (shared_bytes > kernel->shared_bytes) return kInvalid;
  }
  // parameters are the caller's only until this returns
  std::vector<std::vector<char>> values;
  for (size_t i = 0; i < kernel->sizes.size(); ++i) {
    const auto* begin = static_cast<const char*>(parameters[i]);
    values.emplace_back(begin, begin + kernel->sizes[i]);
  }
  stream->push([=, given = std::move(values)] {
    if (sticky() != 0) return;
    auto values = given;  // a run takes the marks off its addresses
    {
      const Guard lock(world().mutex);
      if (injected("kernel") != kOk) return;
    }
    std::vector<void*> arguments;
    for (auto& value : values) arguments.push_back(value.data());
    if (kernel->run(extents, shared_bytes, arguments.data()) == 0) poison(kIllegalAddress);
  });
  return kOk;
}

}  // extern "C"
