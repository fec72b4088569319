/* SPDX-License-Identifier: Apache-2.0 */
#include "mx_core/abi.h"
#include "mx_core/device.h"
#include "mx_core/engine.h"
#include "mx_core/expression.h"
#include "mx_core/invoke.h"
#include "mx_core/kernel.h"
#include "mx_core/storage.h"

/* A kernel package in C needs nothing else. */
int32_t decline(void* self, const mx_signature* signature, mx_plan** plan, mx_error* error);
int32_t decline(void* self, const mx_signature* signature, mx_plan** plan, mx_error* error) {
  (void)self, (void)signature, (void)plan, (void)error;
  return MX_ERROR_UNSUPPORTED;
}
