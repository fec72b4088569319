/* SPDX-License-Identifier: Apache-2.0 */
#include "mx_core/abi.h"
#include "mx_core/device.h"
#include "mx_core/engine.h"
#include "mx_core/expression.h"
#include "mx_core/invoke.h"
#include "mx_core/kernel.h"
#include "mx_core/storage.h"

/* What the headers define is used once. */
int32_t device_is_host(const mx_device_api* device);
int32_t device_is_host(const mx_device_api* device) {
  const mx_context context = {device->type, 0};
  return MX_HAS(device->head.size, mx_device_api, memory) && mx_on_host(context);
}

/* A kernel package in C needs nothing else. */
int32_t decline(void* self, const mx_signature* signature, mx_plan** plan, mx_error* error);
int32_t decline(void* self, const mx_signature* signature, mx_plan** plan, mx_error* error) {
  (void)self, (void)signature, (void)plan, (void)error;
  return MX_ERROR_UNSUPPORTED;
}
