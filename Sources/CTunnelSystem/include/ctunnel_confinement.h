// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#ifndef CTUNNEL_CONFINEMENT_H
#define CTUNNEL_CONFINEMENT_H

#if defined(__linux__)

// seccomp(2): from here on only the system calls that a running tunnel needs. No program can be started, no process made, nobody
// else be sent a signal, and no socket opened but those of AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK. For the calling thread and
// those that it makes, or for all threads at once. Forbids new privileges as well. 0 or errno; ENOSYS where this processor has no filter.
int ctunnel_confine_calls(int all_threads);

// execve(2) of something that cannot be run, to see who refuses it: EPERM under the filter. Always an errno.
int ctunnel_try_program(void);

#endif

#endif
