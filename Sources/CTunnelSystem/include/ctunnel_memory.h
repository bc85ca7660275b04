// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#ifndef CTUNNEL_MEMORY_H
#define CTUNNEL_MEMORY_H

#include <stdlib.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

// Gives free pages of all of the allocator's arenas back to the system. Other libraries' allocators do so by themselves.
static inline void ctunnel_trim_heap(void) {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

#if defined(__linux__)
// Releases the code and read-only pages of the program and its libraries. They stay in the system's page cache, and are
// mapped again one by one when they are used.
void ctunnel_release_code(void);
#endif

#endif
