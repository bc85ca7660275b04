// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#ifndef CTUNNEL_PROCESS_H
#define CTUNNEL_PROCESS_H

#include <stdint.h>
#include <sys/resource.h>

/// Raises the limit of open descriptors of this process to `wanted`, or as near as the hard limit permits. Returns the limit
/// now in effect, or 0 if it cannot be read.
static inline uint64_t ctunnel_raise_descriptor_limit(uint64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    uint64_t had = limit.rlim_cur;
    if (had >= wanted) return had;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : (rlim_t)wanted;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? (uint64_t)limit.rlim_cur : had;
}

#if defined(__linux__)

#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/// pidfd_open(2): a descriptor of a process, closed on exec, that can be read once it has ended.
static inline int ctunnel_process_descriptor(int process) { return (int)syscall(SYS_pidfd_open, process, 0); }

/// memfd_create(2): a file in memory, closed on exec.
static inline int ctunnel_memory_file(void) { return (int)syscall(SYS_memfd_create, "culvert", 1U); }

#endif

#endif
