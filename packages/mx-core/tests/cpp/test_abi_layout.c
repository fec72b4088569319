/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes and offsets of everything that crosses between packages, on 64-bit
 * targets.  Compiling this file is the test: a line that fails is a change of
 * the interface.  Slots may be appended (sizes of tables grow with the minor
 * version); nothing else may change within a major version.
 */
#include "mx_core/device.h"
#include "mx_core/engine.h"
#include "mx_core/expression.h"
#include "mx_core/invoke.h"
#include "mx_core/kernel.h"
#include "mx_core/storage.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type)
#define AT(type, member, offset) \
  _Static_assert(offsetof(type, member) == (offset), "offset of " #type "." #member)

SIZE(mx_table_head, 8);
AT(mx_table_head, size, 0);
AT(mx_table_head, major, 4);
AT(mx_table_head, minor, 6);

SIZE(mx_error, 512);
AT(mx_error, code, 0);
AT(mx_error, message, 4);

SIZE(mx_failure, 400);
AT(mx_failure, head, 0);
AT(mx_failure, code, 8);
AT(mx_failure, payload_kind, 12);
AT(mx_failure, payload, 16);
AT(mx_failure, message, 24);
AT(mx_failure, operator_name, 32);
AT(mx_failure, origin, 128);
AT(mx_failure, retain, 384);
AT(mx_failure, release, 392);

SIZE(mx_context, 8);
AT(mx_context, type, 0);
AT(mx_context, id, 4);

SIZE(mx_tensor, 48);
AT(mx_tensor, data, 0);
AT(mx_tensor, shape, 8);
AT(mx_tensor, bytes, 16);
AT(mx_tensor, context, 24);
AT(mx_tensor, dtype, 32);
AT(mx_tensor, ndim, 36);
AT(mx_tensor, layout, 40);

SIZE(mx_run_context, 48);
AT(mx_run_context, size, 0);
AT(mx_run_context, worker, 4);
AT(mx_run_context, context, 8);
AT(mx_run_context, stream, 16);
AT(mx_run_context, report, 24);
AT(mx_run_context, reporter, 32);
AT(mx_run_context, threads, 40);

SIZE(mx_operation, 96);
AT(mx_operation, size, 0);
AT(mx_operation, flags, 4);
AT(mx_operation, context, 8);
AT(mx_operation, property, 16);
AT(mx_operation, priority, 20);
AT(mx_operation, name, 24);
AT(mx_operation, origin, 32);
AT(mx_operation, reads, 40);
AT(mx_operation, writes, 48);
AT(mx_operation, n_reads, 56);
AT(mx_operation, n_writes, 60);
AT(mx_operation, run, 64);
AT(mx_operation, run_async, 72);
AT(mx_operation, argument, 80);
AT(mx_operation, destroy, 88);

SIZE(mx_engine_event, 64);
AT(mx_engine_event, size, 0);
AT(mx_engine_event, thread, 4);
AT(mx_engine_event, name, 8);
AT(mx_engine_event, context, 16);
AT(mx_engine_event, pushed, 24);
AT(mx_engine_event, started, 32);
AT(mx_engine_event, finished, 40);
AT(mx_engine_event, property, 48);
AT(mx_engine_event, failed, 52);
AT(mx_engine_event, label, 56);

SIZE(mx_engine_api, 248);
AT(mx_engine_api, head, 0);
AT(mx_engine_api, self, 8);
AT(mx_engine_api, retain, 16);
AT(mx_engine_api, release, 24);
AT(mx_engine_api, intern, 32);
AT(mx_engine_api, new_variable, 40);
AT(mx_engine_api, delete_variable, 48);
AT(mx_engine_api, variable_version, 56);
AT(mx_engine_api, push, 64);
AT(mx_engine_api, complete, 72);
AT(mx_engine_api, new_operator, 80);
AT(mx_engine_api, push_operator, 88);
AT(mx_engine_api, delete_operator, 96);
AT(mx_engine_api, wait_for_variable, 104);
AT(mx_engine_api, wait_for_all, 112);
AT(mx_engine_api, variable_failure, 120);
AT(mx_engine_api, variable_ready, 128);
AT(mx_engine_api, pending, 136);
AT(mx_engine_api, stop, 144);
AT(mx_engine_api, notify_shutdown, 152);
AT(mx_engine_api, set_workers, 160);
AT(mx_engine_api, workers, 168);
AT(mx_engine_api, set_bulk_size, 176);
AT(mx_engine_api, set_sink, 184);
AT(mx_engine_api, is_naive, 192);
AT(mx_engine_api, attach_device, 200);
AT(mx_engine_api, wait_for_variable_while, 208);
AT(mx_engine_api, read_variable_while, 216);
AT(mx_engine_api, keep_order, 224);
AT(mx_engine_api, join_variables, 232);
AT(mx_engine_api, join_noted, 240);

SIZE(mx_block, 32);
AT(mx_block, data, 0);
AT(mx_block, bytes, 8);
AT(mx_block, context, 16);
AT(mx_block, handle, 24);

SIZE(mx_storage_stats, 56);
AT(mx_storage_stats, size, 0);
AT(mx_storage_stats, reserved, 4);
AT(mx_storage_stats, bytes_in_use, 8);
AT(mx_storage_stats, bytes_pooled, 16);
AT(mx_storage_stats, bytes_peak, 24);
AT(mx_storage_stats, bytes_limit, 32);
AT(mx_storage_stats, allocations, 40);
AT(mx_storage_stats, pool_hits, 48);

SIZE(mx_storage_api, 72);
AT(mx_storage_api, head, 0);
AT(mx_storage_api, self, 8);
AT(mx_storage_api, alloc, 16);
AT(mx_storage_api, free, 24);
AT(mx_storage_api, direct_free, 32);
AT(mx_storage_api, release_all, 40);
AT(mx_storage_api, stats, 48);
AT(mx_storage_api, reset_peak, 56);
AT(mx_storage_api, set_limit, 64);

SIZE(mx_segment, 32);
AT(mx_segment, size, 0);
AT(mx_segment, fd, 4);
AT(mx_segment, bytes, 8);
AT(mx_segment, inode, 16);
AT(mx_segment, offset, 24);

SIZE(mx_shared_api, 32);
AT(mx_shared_api, head, 0);
AT(mx_shared_api, self, 8);
AT(mx_shared_api, segment, 16);
AT(mx_shared_api, attach, 24);

SIZE(mx_resource_api, 40);
AT(mx_resource_api, head, 0);
AT(mx_resource_api, self, 8);
AT(mx_resource_api, reserve_random, 16);
AT(mx_resource_api, seed, 24);
AT(mx_resource_api, seed_all, 32);

SIZE(mx_device_api, 96);
AT(mx_device_api, head, 0);
AT(mx_device_api, self, 8);
AT(mx_device_api, type, 16);
AT(mx_device_api, reserved, 20);
AT(mx_device_api, count, 24);
AT(mx_device_api, stream, 32);
AT(mx_device_api, record, 40);
AT(mx_device_api, reached, 48);
AT(mx_device_api, wait, 56);
AT(mx_device_api, stream_wait, 64);
AT(mx_device_api, release, 72);
AT(mx_device_api, copy, 80);
AT(mx_device_api, memory, 88);

SIZE(mx_kernel_context, 88);
AT(mx_kernel_context, size, 0);
AT(mx_kernel_context, is_train, 4);
AT(mx_kernel_context, context, 8);
AT(mx_kernel_context, stream, 16);
AT(mx_kernel_context, scratch, 24);
AT(mx_kernel_context, scalars, 32);
AT(mx_kernel_context, n_scalars, 40);
AT(mx_kernel_context, threads, 44);
AT(mx_kernel_context, random_key, 48);
AT(mx_kernel_context, random_offset, 56);
AT(mx_kernel_context, alloc_output, 64);
AT(mx_kernel_context, host, 72);
AT(mx_kernel_context, staging, 80);

SIZE(mx_scratch_section, 24);
AT(mx_scratch_section, scratch, 0);
AT(mx_scratch_section, reserved, 4);
AT(mx_scratch_section, offset, 8);
AT(mx_scratch_section, bytes, 16);

SIZE(mx_plan, 80);
AT(mx_plan, head, 0);
AT(mx_plan, flags, 8);
AT(mx_plan, n_scratch, 12);
AT(mx_plan, scratch_bytes, 16);
AT(mx_plan, random_blocks, 24);
AT(mx_plan, run, 32);
AT(mx_plan, retain, 40);
AT(mx_plan, release, 48);
AT(mx_plan, staging_bytes, 56);
AT(mx_plan, sections, 64);
AT(mx_plan, n_sections, 72);
AT(mx_plan, reserved, 76);

SIZE(mx_param, 32);
AT(mx_param, name, 0);
AT(mx_param, text, 8);
AT(mx_param, number, 16);
AT(mx_param, is_number, 24);
AT(mx_param, reserved, 28);

SIZE(mx_signature, 56);
AT(mx_signature, size, 0);
AT(mx_signature, is_train, 4);
AT(mx_signature, context, 8);
AT(mx_signature, params, 16);
AT(mx_signature, inputs, 24);
AT(mx_signature, outputs, 32);
AT(mx_signature, n_params, 40);
AT(mx_signature, n_inputs, 44);
AT(mx_signature, n_outputs, 48);
AT(mx_signature, reserved, 52);

SIZE(mx_kernel_api, 24);
AT(mx_kernel_api, head, 0);
AT(mx_kernel_api, self, 8);
AT(mx_kernel_api, prepare, 16);

SIZE(mx_invoke_api, 120);
AT(mx_invoke_api, head, 0);
AT(mx_invoke_api, self, 8);
AT(mx_invoke_api, array_new, 16);
AT(mx_invoke_api, array_view, 24);
AT(mx_invoke_api, array_retain, 32);
AT(mx_invoke_api, array_release, 40);
AT(mx_invoke_api, array_variable, 48);
AT(mx_invoke_api, array_tensor, 56);
AT(mx_invoke_api, call_retain, 64);
AT(mx_invoke_api, call_release, 72);
AT(mx_invoke_api, call_is_python, 80);
AT(mx_invoke_api, call_name, 88);
AT(mx_invoke_api, push, 96);
AT(mx_invoke_api, run, 104);
AT(mx_invoke_api, call_random_blocks, 112);

SIZE(mx_expression_head, 32);
AT(mx_expression_head, magic, 0);
AT(mx_expression_head, major, 4);
AT(mx_expression_head, minor, 6);
AT(mx_expression_head, n_inputs, 8);
AT(mx_expression_head, n_scalars, 12);
AT(mx_expression_head, n_constants, 16);
AT(mx_expression_head, n_instructions, 20);
AT(mx_expression_head, n_outputs, 24);
AT(mx_expression_head, reserved, 28);

SIZE(mx_instruction, 16);
AT(mx_instruction, opcode, 0);
AT(mx_instruction, argument, 2);
AT(mx_instruction, a, 4);
AT(mx_instruction, b, 8);
AT(mx_instruction, c, 12);

/* What is accepted of an older minor version: the sizes of 1.0, which never change. */
_Static_assert(MX_OPERATION_SIZE_1_0 == 96, "mx_operation 1.0");
_Static_assert(MX_DEVICE_SIZE_1_0 == 96, "mx_device_api 1.0");
_Static_assert(MX_PLAN_SIZE_1_0 == 56, "mx_plan 1.0");
_Static_assert(MX_KERNEL_SIZE_1_0 == 24, "mx_kernel_api 1.0");
_Static_assert(MX_HAS(24, mx_kernel_api, prepare) && !MX_HAS(23, mx_kernel_api, prepare), "MX_HAS");

/* Values that cross as numbers. */
_Static_assert(MX_OK == 0 && MX_ERROR_PYTHON == 10 && MX_TIMEOUT == 100, "mx_status");
_Static_assert(MX_CPU == 1 && MX_GPU == 2 && MX_CPU_PINNED == 3 && MX_CPU_SHARED == 5, "devices");
_Static_assert(MX_FLOAT32 == 0 && MX_BOOL == 7 && MX_BFLOAT16 == 12 && MX_COMPLEX128 == 14, "types");
_Static_assert(MX_REQ_NULL == 0 && MX_REQ_ADD == 3, "mx_req");
_Static_assert(MX_FN_NORMAL == 0 && MX_FN_NO_SKIP == 7, "mx_fn_property");

int main(void) { return 0; }
