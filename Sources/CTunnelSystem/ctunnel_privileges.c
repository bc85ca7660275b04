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
#include <linux/capability.h>
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

int ctunnel_forbid_new_privileges(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno; }

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

int ctunnel_close_from(unsigned int first) {
    return syscall(SYS_close_range, first, ~0U, 0) == 0 ? 0 : errno;
}

int ctunnel_forbid_dumps(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : errno; }

#endif
