// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Counts the heap allocations of a program, on all threads, between two calls. scripts/bench allocations preloads it into
// culvert-bench; glibc only.

#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_int watching;
static atomic_int traces;
static atomic_ullong count;
static __thread int tracing;

/// Begins counting from zero. The stacks of the first `wanted` allocations go to standard error.
void culvert_allocations_watch(int wanted) {
    // The first call of backtrace() allocates.
    void *frames[4];
    backtrace(frames, 4);
    atomic_store(&traces, wanted);
    atomic_store(&count, 0);
    atomic_store(&watching, 1);
}

/// Ends counting and gives the number of allocations.
uint64_t culvert_allocations_end(void) {
    atomic_store(&watching, 0);
    return atomic_load(&count);
}

static void note(void) {
    if (!atomic_load_explicit(&watching, memory_order_relaxed) || tracing) return;
    atomic_fetch_add(&count, 1);
    if (atomic_load_explicit(&traces, memory_order_relaxed) <= 0) return;
    if (atomic_fetch_sub(&traces, 1) <= 0) return;
    tracing = 1;
    void *frames[24];
    int depth = backtrace(frames, 24);
    static const char heading[] = "-- allocation\n";
    ssize_t written = write(2, heading, sizeof heading - 1);
    (void)written;
    backtrace_symbols_fd(frames, depth, 2);
    tracing = 0;
}

void *malloc(size_t size) {
    note();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    note();
    return __libc_calloc(number, size);
}

void *realloc(void *pointer, size_t size) {
    note();
    return __libc_realloc(pointer, size);
}

void *memalign(size_t alignment, size_t size) {
    note();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    note();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **pointer, size_t alignment, size_t size) {
    note();
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) return EINVAL;
    void *memory = __libc_memalign(alignment, size);
    if (memory == NULL) return ENOMEM;
    *pointer = memory;
    return 0;
}
