// SPDX-License-Identifier: Apache-2.0
//
// How tests steer the fake driver.  Everything here is exported beside the cu* functions.
//
// The environment says what machine it is: FAKE_CUDA_DEVICES (2), FAKE_CUDA_MEMORY (bytes per device,
// 256 MiB), FAKE_CUDA_DELAY (microseconds before every queued operation, 0).
#pragma once

#include <cstddef>

extern "C" {

// Device addresses have this bit, so that no processor takes them for host memory.
constexpr unsigned long long kFakeDeviceBit = 1ull << 60;

// Microseconds every operation waits at the head of its queue.
void fake_delay(long microseconds);
// The call number `skip` + 1 from now to the driver's function `symbol` returns `result`.  With
// symbol "kernel" the kernel itself fails, asynchronously.
void fake_fail(const char* symbol, int result, int skip);
// Forgets injected failures and the sticky error.
void fake_heal();
// Bytes allocated on a device, and page-locked on the host.
size_t fake_used(int device);
size_t fake_pinned();
// Calls so far to a function.
long fake_calls(const char* symbol);
// Enqueues a host function on a stream, for other libraries of the machine; `body` gets `argument`, several times if
// the stream is captured, and `destroy` gets it last.
void fake_enqueue(void* stream, void (*body)(void* argument), void* argument, void (*destroy)(void* argument));
// The GPU has failed, as in a kernel that ran before.
void fake_poison(int result);
// Whether `bytes` of device memory begin at an address.
int fake_owns(unsigned long long address, size_t bytes);
// Makes a host function a kernel: an image "FAKE:registered" has it under `name`.
void fake_register(const char* name, void (*run)(unsigned blocks, unsigned threads, void** arguments),
                   const size_t* sizes, int n);

}  // extern "C"
