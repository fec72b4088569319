// SPDX-License-Identifier: Apache-2.0
#include "device_table.hpp"

#include "captured_step.hpp"
#include "gpu.hpp"
#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

Address address(const void* data) noexcept { return reinterpret_cast<uintptr_t>(data); }

mx_device_api make_table() noexcept {
  mx_device_api t{};
  t.head = {sizeof t, MX_DEVICE_MAJOR, MX_DEVICE_MINOR};
  t.type = MX_GPU;
  t.count = [](void*) { return forked() ? 0 : static_cast<int32_t>(driver().count); };
  t.stream = [](void*, int32_t id, int32_t lane, void** stream, mx_error* error) {
    return guarded(error, [&] { *stream = Gpu::at(id).stream(lane); });
  };
  t.record = [](void*, void* stream, mx_token** token, mx_error* error) {
    return guarded(error, [&] {
      const auto lane = static_cast<Stream>(stream);
      *token = Gpu::of(lane).record(lane);
    });
  };
  // A token that failed counts as reached: waiting for it tells why.
  t.reached = [](void*, mx_token* token) -> int32_t {
    return forked() || token->gpu->cuda().event_query(token->point()) != kNotReady;
  };
  t.wait = [](void*, mx_token* token, mx_error* error) {
    return guarded(error, [&] {
      check(functions().event_wait(token->point()), token->gpu->name(), "cuEventSynchronize");
    });
  };
  t.stream_wait = [](void*, void* stream, mx_token* token, mx_error* error) {
    return guarded(error, [&] {
      const auto lane = static_cast<Stream>(stream);
      if (lane == token->stream) return;  // in order anyway
      Gpu& gpu = Gpu::of(lane);
      const auto step = gpu.recorded();
      if (step != nullptr && step->captures(lane)) return;  // nothing was pending when the capture began
      check(functions().stream_wait(lane, token->point(), 0), gpu.name(), "cuStreamWaitEvent");
    });
  };
  t.release = [](void*, mx_token* token) {
    if (!forked()) token->gpu->recycle(token);  // in the child its lock may be held for ever
  };
  t.copy = [](void*, void* stream, void* to, mx_context to_context, const void* from,
              mx_context from_context, size_t bytes, mx_error* error) {
    return guarded(error, [&] {
      copy(static_cast<Stream>(stream), to, to_context, from, from_context, bytes);
    });
  };
  t.memory = [](void*, int32_t id, uint64_t* free_bytes, uint64_t* total, mx_error* error) {
    return guarded(error, [&] {
      size_t now = 0, all = 0;
      Gpu::at(id).memory(&now, &all);
      *free_bytes = now;
      *total = all;
    });
  };
  return t;
}

}  // namespace

void copy(Stream stream, void* to, mx_context to_context, const void* from, mx_context from_context, size_t bytes) {
  const Functions& cuda = functions();
  if (bytes == 0) return;
  Gpu& gpu = Gpu::of(stream);
  const std::string where = name_of(from_context) + " to " + name_of(to_context);
  for (const mx_context side : {to_context, from_context}) {
    if (side.type != MX_GPU && !mx_on_host(side)) {
      throw Error(MX_ERROR_VALUE, "[" + where + "] memory of another kind of device is not reachable");
    }
  }
  if (mx_on_host(to_context) && mx_on_host(from_context)) {
    throw Error(MX_ERROR_VALUE, "[" + where + "] neither side is memory of a GPU");
  }
  const CapturedStep::Copy what{stream, to, to_context, from, from_context, bytes};
  if (const auto step = gpu.recorded()) {
    if (!step->record(what)) return;
  }
  const CopyOrder order(what);
  const Current current(gpu);
  if (mx_on_host(from_context)) {
    check(cuda.copy_to_device(address(to), from, bytes, stream), where, "cuMemcpyHtoDAsync");
  } else if (mx_on_host(to_context)) {
    check(cuda.copy_to_host(to, address(from), bytes, stream), where, "cuMemcpyDtoHAsync");
  } else if (to_context.id == from_context.id) {
    check(cuda.copy_on_device(address(to), address(from), bytes, stream), where,
          "cuMemcpyDtoDAsync");
  } else {
    Gpu &target = Gpu::at(to_context.id), &source = Gpu::at(from_context.id);
    gpu.reach(gpu.id() == target.id() ? source : target);
    check(cuda.copy_to_peer(address(to), target.context(), address(from), source.context(), bytes,
                            stream),
          where, "cuMemcpyPeerAsync");
  }
  order.enqueued();
}

const mx_device_api* device_table() noexcept {
  static const mx_device_api the_table = make_table();
  return &the_table;
}

}  // namespace mx::cuda
