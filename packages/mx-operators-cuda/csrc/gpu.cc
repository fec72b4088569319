// SPDX-License-Identifier: Apache-2.0
#include "gpu.hpp"

#include <algorithm>
#include <utility>

#include "captured_step.hpp"
#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

constexpr int32_t kGpus = 64;
std::atomic<Gpu*> gpus[kGpus];  // never freed
std::mutex& opening() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// Waiting for the event blocks the thread: it is the engine's, and would take a core from workers.
constexpr unsigned kEventFlags = kEventDisableTiming | kEventBlockingSync;

}  // namespace

Gpu& Gpu::at(int32_t id) {
  const Functions& cuda = functions();
  const int count = std::min(driver().count, kGpus);
  if (id < 0 || id >= count) {
    throw Error(MX_ERROR_VALUE, "[gpu] there is no gpu(" + std::to_string(id) +
                                    "): this machine has gpu(0) to gpu(" +
                                    std::to_string(count - 1) + ")");
  }
  if (Gpu* found = gpus[id].load(std::memory_order_acquire)) return *found;
  const std::lock_guard<std::mutex> lock(opening());
  if (Gpu* found = gpus[id].load(std::memory_order_acquire)) return *found;
  auto* made = new Gpu(cuda, id);
  gpus[id].store(made, std::memory_order_release);
  return *made;
}

Gpu& Gpu::of(Stream stream) {
  functions();  // refuses in a forked child
  for (std::atomic<Gpu*>& slot : gpus) {
    Gpu* gpu = slot.load(std::memory_order_acquire);
    if (gpu == nullptr) continue;
    for (Stream lane : gpu->streams_)
      if (lane == stream) return *gpu;
  }
  throw Error(MX_ERROR_VALUE, "[gpu] this stream is none of the device's: ask it for one by lane");
}

Gpu::Gpu(const Functions& cuda, int32_t id)
    : cuda_(cuda), id_(id), name_("gpu(" + std::to_string(id) + ")") {
  check(cuda.device_get(&ordinal_, id), name_, "cuDeviceGet");
  check(cuda.primary_retain(&context_, ordinal_), name_, "cuDevicePrimaryCtxRetain");
  const Current current(*this);
  for (Stream& stream : streams_) {
    check(cuda.stream_create(&stream, kStreamNonBlocking), name_, "cuStreamCreate");
  }
}

Stream Gpu::stream(int32_t lane) const {
  if (lane < 0 || lane >= kLanes) {
    throw Error(MX_ERROR_VALUE, "[" + name_ + "] lane: expected 0 (compute), 1 (copy in) or 2 (copy "
                                "out), got " + std::to_string(lane));
  }
  return streams_[lane];
}

std::string Gpu::model() const {
  char text[256] = {};
  check(cuda_.device_name(text, sizeof text - 1, ordinal_), name_, "cuDeviceGetName");
  return text;
}

int Gpu::attribute(int which) const {
  int value = 0;
  check(cuda_.device_attribute(&value, which, ordinal_), name_, "cuDeviceGetAttribute");
  return value;
}

void Gpu::memory(size_t* free_bytes, size_t* total) const {
  const Current current(*this);
  check(cuda_.memory_info(free_bytes, total), name_, "cuMemGetInfo");
}

void Gpu::reach(Gpu& peer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(peers_.begin(), peers_.end(), peer.id_) != peers_.end()) return;
  int can = 0;
  check(cuda_.can_access_peer(&can, ordinal_, peer.ordinal_), name_, "cuDeviceCanAccessPeer");
  if (can != 0) {
    const Current current(*this);
    const Result result = cuda_.enable_peer(peer.context_, 0);
    if (result != kPeerAccessAlreadyEnabled) check(result, name_, "cuCtxEnablePeerAccess");
  }
  peers_.push_back(peer.id_);
}

void Gpu::synchronize() const {
  if (recorded() != nullptr) {
    throw Error(MX_ERROR_UNSUPPORTED, "[CapturedStep] " + name_ + ": code in Python on arrays of the GPU, such as that "
                                      "of a custom operator, cannot be captured");
  }
  const Current current(*this);
  check(cuda_.synchronize(), name_, "cuCtxSynchronize");
}

mx_token* Gpu::record(Stream stream) {
  mx_token* token = take_token();
  token->stream = stream;
  if (stream == streams_[0]) {
    if (const auto step = recorded()) {
      token->run = step->last_run();
      return token;
    }
  }
  const Result result = cuda_.event_record(token->event, stream);
  if (result != kSuccess) {
    recycle(token);
    check(result, name_, "cuEventRecord");
  }
  return token;
}

mx_token* Gpu::take_token() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!tokens_.empty()) {
    mx_token* token = tokens_.back();
    tokens_.pop_back();
    return token;
  }
  if (tokens_.capacity() <= tokens_made_) tokens_.reserve(2 * tokens_made_ + 16);
  auto made = std::make_unique<mx_token>(mx_token{nullptr, nullptr, this, nullptr});
  const Current current(*this);
  check(cuda_.event_create(&made->event, kEventFlags), name_, "cuEventCreate");
  ++tokens_made_;
  return made.release();
}

void Gpu::recycle(mx_token* token) noexcept {
  token->run.reset();  // before the lock: it may recycle another
  const std::lock_guard<std::mutex> lock(mutex_);
  tokens_.push_back(token);
}

std::shared_ptr<CapturedStep> Gpu::recorded() const {
  if (!records_.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  return recorded_;
}

void Gpu::record_to(std::shared_ptr<CapturedStep> step) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (step != nullptr && recorded_ != nullptr) {
      throw Error(MX_ERROR, "[CapturedStep] " + name_ + ": another step is being captured or started");
    }
    records_.store(step != nullptr, std::memory_order_release);
    recorded_.swap(step);
  }  // what was recorded goes without the lock
}

std::vector<std::shared_ptr<CapturedStep>> Gpu::captured() const {
  std::vector<std::shared_ptr<CapturedStep>> found;
  if (!has_captured_.load(std::memory_order_acquire)) return found;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& each : captured_) {
    if (auto step = each.lock()) found.push_back(std::move(step));
  }
  return found;
}

void Gpu::add_captured(const std::shared_ptr<CapturedStep>& step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto gone = [](const auto& each) { return each.expired(); };
  captured_.erase(std::remove_if(captured_.begin(), captured_.end(), gone), captured_.end());
  captured_.push_back(step);
  has_captured_.store(true, std::memory_order_release);
}

LastRun::LastRun(Gpu& gpu) : token_(gpu.record(gpu.stream(0))) {}

LastRun::~LastRun() {
  if (!forked()) token_->gpu->recycle(token_);
}

Current::Current(const Gpu& gpu) : cuda_(gpu.cuda()) {
  check(cuda_.push_current(gpu.context()), gpu.name(), "cuCtxPushCurrent");
}

Current::~Current() {
  Context popped = nullptr;
  cuda_.pop_current(&popped);
}

}  // namespace mx::cuda

mx::cuda::Event mx_token::point() const noexcept { return run == nullptr ? event : run->event(); }
