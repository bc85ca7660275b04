// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if defined(__linux__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#endif

#include "ctunnel_privileges.h"

#if defined(__linux__)

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int ctunnel_keep_capabilities(uint64_t bits) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct now[2];
    if (syscall(SYS_capget, &header, now) != 0) return errno;
    struct __user_cap_data_struct sets[2];
    for (int half = 0; half < 2; half++) {
        uint32_t keep = (uint32_t)(bits >> (32 * half)) & now[half].permitted;
        sets[half].effective = keep;
        sets[half].permitted = keep;
        sets[half].inheritable = 0;
    }
    return syscall(SYS_capset, &header, sets) == 0 ? 0 : errno;
}

#ifndef PR_CAP_AMBIENT
#define PR_CAP_AMBIENT 47
#define PR_CAP_AMBIENT_RAISE 2
#endif

int ctunnel_become_user(unsigned int user, unsigned int group, uint64_t bits) {
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return errno;
    if (setgroups(0, NULL) != 0 || setresgid(group, group, group) != 0 || setresuid(user, user, user) != 0) return errno;
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    for (int half = 0; half < 2; half++) {
        uint32_t keep = (uint32_t)(bits >> (32 * half));
        sets[half].effective = keep;
        sets[half].permitted = keep;
        sets[half].inheritable = keep;
    }
    if (syscall(SYS_capset, &header, sets) != 0) return errno;
    for (unsigned long bit = 0; bit < 64; bit++) {
        if ((bits >> bit & 1) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, bit, 0, 0) != 0) return errno;
    }
    return 0;
}

int ctunnel_forbid_new_privileges(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno; }

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

int ctunnel_close_from(unsigned int first) {
    return syscall(SYS_close_range, first, ~0U, 0) == 0 ? 0 : errno;
}

int ctunnel_spawn_close_from(void *actions, int first) {
    return posix_spawn_file_actions_addclosefrom_np(actions, first);
}

int ctunnel_forbid_dumps(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : errno; }

#endif
