// SPDX-License-Identifier: Apache-2.0
//
// Memory from the operating system.
#pragma once

#include <cstddef>
#include <cstdint>

#include "available_memory.hpp"

namespace mx::storage {

// Aligned to 64 bytes; NULL when there is none.
void* heap_alloc(size_t bytes) noexcept;
void heap_free(void* data) noexcept;

// Pages of their own, to the end of the last page; from 4 MiB on aligned to 2 MiB and, where the
// system does that on advice, backed by huge pages.  NULL when there is none, or less than would be written.
void* map_pages(size_t bytes) noexcept;
void unmap_pages(void* data, size_t bytes) noexcept;

// Whether the pages of a new mapping could be written: the kernel grants more than there is, and kills the process that
// uses it.  Small mappings are granted unasked.
bool can_be_written(size_t bytes, uint64_t (*available)() noexcept = available_memory) noexcept;

// `bytes` rounded up to whole pages.
size_t whole_pages(size_t bytes) noexcept;

}  // namespace mx::storage
