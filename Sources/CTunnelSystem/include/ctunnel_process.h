// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#ifndef CTUNNEL_PROCESS_H
#define CTUNNEL_PROCESS_H

#if defined(__linux__)

#include <stdint.h>
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
