// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#ifndef CTUNNEL_PRIVILEGES_H
#define CTUNNEL_PRIVILEGES_H

#include <stdint.h>

#if defined(__linux__)

// capset(2) to exactly these capability bits in the permitted, effective and (empty) inheritable sets. 0 or errno.
int ctunnel_keep_capabilities(uint64_t bits);

// Becomes this user and group, without other groups, and keeps exactly these capability bits, which programs that are
// started from here have too. For a process with one thread. 0 or errno.
int ctunnel_become_user(unsigned int user, unsigned int group, uint64_t bits);

// prctl(PR_SET_NO_NEW_PRIVS). 0 or errno.
int ctunnel_forbid_new_privileges(void);

// close_range(2) from this descriptor on. 0 or errno.
int ctunnel_close_from(unsigned int first);

// Closes the descriptors from this one on in a program that posix_spawn starts. `actions` is a posix_spawn_file_actions_t. 0 or errno.
int ctunnel_spawn_close_from(void *actions, int first);

// prctl(PR_SET_DUMPABLE, 0). 0 or errno.
int ctunnel_forbid_dumps(void);

#endif

#endif
