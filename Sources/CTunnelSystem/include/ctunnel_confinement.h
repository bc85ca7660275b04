// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#ifndef CTUNNEL_CONFINEMENT_H
#define CTUNNEL_CONFINEMENT_H

#if defined(__linux__)

// Installs a seccomp(2) filter that permits only the system calls that a running tunnel needs. No program can be started, no
// process created, no other process signalled, and no socket opened except AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK. It
// applies to the calling thread and the threads that it creates, or to all threads. It also forbids new privileges. Returns 0
// or errno; ENOSYS if there is no filter for this processor.
int ctunnel_confine_calls(int all_threads);

// execve(2) of something that cannot be run, to see who refuses it: EPERM under the filter. Always an errno.
int ctunnel_try_program(void);

#endif

#endif
