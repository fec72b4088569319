/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts what native code of mx allocates while counting is on, and makes one of these allocations fail if it is told
 * to; preloaded, it stands before the C library's malloc.
 *
 * An allocation belongs to the first library on the stack that is no runtime library: operator new and the containers
 * of libstdc++ count for whoever used them.  What OpenMP's runtime allocates, teams of threads, is its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

enum { kKernels, kPrimitives, kExtensions, kOwners };
static atomic_int counting;
static atomic_long counts[kOwners], largest[kOwners];
static atomic_long before_failure; /* allocations that succeed before one fails; negative: none fails */
static __thread int inside;

#define EXPORT __attribute__((visibility("default")))

static int has(const char* path, const char* part) { return strstr(path, part) != NULL; }

/* Whether the allocation must fail. */
static int count(size_t size) {
  if (!atomic_load_explicit(&counting, memory_order_relaxed) || inside) return 0;
  inside = 1;
  int fails = 0;
  void* frames[64];
  const int depth = backtrace(frames, 64);
  Dl_info self, at;
  dladdr((void*)(uintptr_t)&count, &self);
  for (int i = 0; i < depth; ++i) {
    if (!dladdr(frames[i], &at) || at.dli_fname == NULL || at.dli_fbase == self.dli_fbase) continue;
    const char* path = at.dli_fname;
    if (has(path, "libc.so") || has(path, "libc-") || has(path, "libstdc++") || has(path, "libgcc_s")) continue;
    const int owner = has(path, "mx_operators_cpu/_native") ? kKernels
                      : has(path, "libdnnl")                ? kPrimitives
                      : has(path, "/mx_")                   ? kExtensions
                                                            : kOwners;
    if (owner != kOwners) {
      /* oneDNN does not look at what its allocations give. */
      fails = owner != kPrimitives && atomic_load(&before_failure) >= 0 && atomic_fetch_sub(&before_failure, 1) == 0;
      atomic_fetch_add(&counts[owner], 1);
      if ((long)size > atomic_load(&largest[owner])) atomic_store(&largest[owner], (long)size);
      if (getenv("MX_SHOW_ALLOCATIONS") != NULL) backtrace_symbols_fd(frames, depth, 2);
    }
    break;
  }
  inside = 0;
  if (fails) errno = ENOMEM;
  return fails;
}

/* Turns counting on, from zero.  After `allowed` allocations outside of oneDNN one fails; none if that is negative. */
EXPORT void allocations_begin(long allowed) {
  void* frames[2];
  backtrace(frames, 2); /* loads the unwinder, which allocates */
  for (int i = 0; i < kOwners; ++i) atomic_store(&counts[i], 0), atomic_store(&largest[i], 0);
  atomic_store(&before_failure, allowed);
  atomic_store(&counting, 1);
}

/* Whether the allocation that had to fail has been asked for. */
EXPORT int allocations_failed(void) { return atomic_load(&before_failure) < 0; }

/* Turns it off.  counted: allocations of the kernels, bytes of the largest; of oneDNN; of other extensions. */
EXPORT void allocations_end(long* counted) {
  atomic_store(&counting, 0);
  for (int i = 0; i < kOwners; ++i) counted[2 * i] = counts[i], counted[2 * i + 1] = largest[i];
}

EXPORT void* malloc(size_t size) {
  return count(size) ? NULL : __libc_malloc(size);
}

EXPORT void* calloc(size_t n, size_t size) {
  return count(n * size) ? NULL : __libc_calloc(n, size);
}

EXPORT void* realloc(void* old, size_t size) {
  return count(size) ? NULL : __libc_realloc(old, size);
}

EXPORT void* memalign(size_t alignment, size_t size) {
  return count(size) ? NULL : __libc_memalign(alignment, size);
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

EXPORT int posix_memalign(void** made, size_t alignment, size_t size) {
  *made = memalign(alignment, size);
  return *made == NULL ? ENOMEM : 0;
}
