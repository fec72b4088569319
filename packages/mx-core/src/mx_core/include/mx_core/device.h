/* SPDX-License-Identifier: Apache-2.0
 *
 * Interface "device": what an accelerator offers the engine and the arrays.
 * The host needs none: contexts of type cpu have no device table.
 *
 * Two-step completion: an operation is *launched* when its host function has
 * returned and *done* when the token recorded after it is reached.
 */
#ifndef MX_CORE_DEVICE_H_
#define MX_CORE_DEVICE_H_

#include "mx_core/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MX_DEVICE_CAPSULE "mx.device.v1"
#define MX_DEVICE_MAJOR 1
#define MX_DEVICE_MINOR 0

typedef struct mx_token mx_token; /* a point on a stream */

typedef struct mx_device_api {
  mx_table_head head;
  void* self;
  int32_t type; /* mx_device_type */
  int32_t reserved;

  /* Devices present; 0 when there is none. */
  int32_t (*count)(void* self);
  /* A stream of the device; lane 0 computes, 1 copies in, 2 copies out. */
  int32_t (*stream)(void* self, int32_t id, int32_t lane, void** stream, mx_error* error);

  int32_t (*record)(void* self, void* stream, mx_token** token, mx_error* error);
  int32_t (*reached)(void* self, mx_token* token); /* 1 or 0 */
  /* Blocks the host. */
  int32_t (*wait)(void* self, mx_token* token, mx_error* error);
  /* Makes later work on `stream` wait, without blocking the host. */
  int32_t (*stream_wait)(void* self, void* stream, mx_token* token, mx_error* error);
  void (*release)(void* self, mx_token* token);

  /* Enqueues a copy; either side may be host memory. */
  int32_t (*copy)(void* self, void* stream, void* to, mx_context to_context, const void* from,
                  mx_context from_context, size_t bytes, mx_error* error);
  /* Free and total bytes. */
  int32_t (*memory)(void* self, int32_t id, uint64_t* free_bytes, uint64_t* total, mx_error* error);
} mx_device_api;

#define MX_DEVICE_SIZE_1_0 MX_SIZE_UP_TO(mx_device_api, memory)

#ifdef __cplusplus
}
#endif
#endif /* MX_CORE_DEVICE_H_ */
