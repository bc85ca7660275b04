// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if defined(__linux__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "ctunnel_confinement.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define CTUNNEL_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CTUNNEL_AUDIT_ARCH AUDIT_ARCH_AARCH64
#endif

int ctunnel_try_program(void) {
    char *nothing[] = {NULL};
    return execve("/", nothing, nothing) == 0 ? 0 : errno;
}

#if !defined(CTUNNEL_AUDIT_ARCH)

int ctunnel_confine_calls(int all_threads) {
    (void)all_threads;
    return ENOSYS;
}

#else

// Calls that are allowed with any arguments. Those of the data path come first, for kernels that compare from top to bottom
// (before 5.11). Old calls exist on x86-64 only; the C library's headers may lack the numbers of new ones.
static const uint32_t allowed_calls[] = {
    SYS_futex, SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_recvmmsg, SYS_sendmmsg, SYS_recvmsg, SYS_sendmsg, SYS_epoll_pwait,
    SYS_ppoll, SYS_recvfrom, SYS_sendto,
#ifdef SYS_epoll_wait
    SYS_epoll_wait, SYS_poll,
#endif
    SYS_clock_gettime, SYS_madvise, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_brk,
    // Files.
    SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_openat, SYS_close, SYS_lseek, SYS_fstat,
    SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs, SYS_faccessat, SYS_readlinkat, SYS_getcwd, SYS_chdir, SYS_fchdir,
    SYS_getdents64, SYS_mkdirat, SYS_unlinkat, SYS_renameat, SYS_renameat2, SYS_linkat, SYS_symlinkat, SYS_ftruncate, SYS_truncate,
    SYS_fallocate, SYS_fsync, SYS_fdatasync, SYS_sync_file_range, SYS_flock, SYS_fcntl, SYS_dup, SYS_dup3, SYS_pipe2, SYS_umask,
    SYS_fchmod, SYS_fchmodat, SYS_utimensat, SYS_fadvise64, SYS_sendfile, SYS_copy_file_range, SYS_readahead, SYS_memfd_create,
    SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch, SYS_msync, SYS_mincore, SYS_mlock, SYS_mlock2, SYS_munlock,
    // Threads, signals and time.
    SYS_membarrier, SYS_set_robust_list, SYS_get_robust_list, SYS_set_tid_address, SYS_gettid, SYS_getpid, SYS_getppid, SYS_exit,
    SYS_exit_group, SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_sched_getparam, SYS_sched_getscheduler,
    SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_sched_getattr, SYS_restart_syscall, SYS_getcpu, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigtimedwait, SYS_rt_sigpending, SYS_rt_sigsuspend, SYS_sigaltstack, SYS_signalfd4,
    SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_timerfd_create, SYS_timerfd_settime,
    SYS_timerfd_gettime, SYS_times, SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl, SYS_eventfd2,
    // Sockets, but for making them.
    SYS_socketpair, SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_connect, SYS_getsockname, SYS_getpeername, SYS_getsockopt,
    SYS_setsockopt, SYS_shutdown,
    // Facts about this process and the program runner's process.
    SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid, SYS_getgroups, SYS_getpgid, SYS_getsid,
    SYS_prlimit64, SYS_getrusage, SYS_sysinfo, SYS_uname, SYS_getrandom, SYS_capget, SYS_wait4, SYS_waitid,
#ifdef SYS_open
    SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_getdents, SYS_mkdir, SYS_rmdir, SYS_unlink, SYS_rename, SYS_link,
    SYS_symlink, SYS_dup2, SYS_pipe, SYS_chmod, SYS_inotify_init, SYS_time, SYS_select, SYS_epoll_create, SYS_eventfd, SYS_getpgrp,
    SYS_getrlimit, SYS_arch_prctl, SYS_pause,
#endif
    // By their numbers, which are the same everywhere: rseq on arm64 and pidfd_open to faccessat2, epoll_pwait2, futex_waitv,
    // fchmodat2, futex_wake, futex_wait and futex_requeue.
#if defined(__x86_64__)
    334,
#else
    293,
#endif
    434, 436, 437, 439, 441, 449, 452, 454, 455, 456,
};

#define MOST_INSTRUCTIONS 512

struct program {
    struct sock_filter code[MOST_INSTRUCTIONS];
    unsigned short count;
};

static void add(struct program *program, struct sock_filter instruction) {
    if (program->count < MOST_INSTRUCTIONS) program->code[program->count++] = instruction;
}

static void statement(struct program *program, uint16_t code, uint32_t value) {
    add(program, (struct sock_filter)BPF_STMT(code, value));
}

static void load(struct program *program, size_t offset) {
    statement(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

static void end(struct program *program, uint32_t verdict) { statement(program, BPF_RET | BPF_K, verdict); }

// Ends with this verdict if the loaded value equals this one.
static void end_if_equal(struct program *program, uint32_t value, uint32_t verdict) {
    add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    end(program, verdict);
}

// The lower half of an argument; both processors are little-endian.
static size_t argument(int index) { return offsetof(struct seccomp_data, args) + 8 * (size_t)index; }

static uint32_t refusal(int error) { return SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA); }

// Begins the checks of a call's arguments; `finish_call` ends them.
static unsigned short begin_call(struct program *program, uint32_t number) {
    unsigned short jump = program->count;
    add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 0));
    return jump;
}

static void finish_call(struct program *program, unsigned short jump, uint32_t verdict) {
    end(program, verdict);
    program->code[jump].jf = (uint8_t)(program->count - jump - 1);
}

// Allows some values of an argument.
static void allow_values(
    struct program *program, uint32_t number, int index, const uint32_t *values, int count, uint32_t otherwise) {
    unsigned short jump = begin_call(program, number);
    load(program, argument(index));
    for (int i = 0; i < count; i++) end_if_equal(program, values[i], SECCOMP_RET_ALLOW);
    finish_call(program, jump, otherwise);
}

int ctunnel_confine_calls(int all_threads) {
    struct program program = {.count = 0};
    load(&program, offsetof(struct seccomp_data, arch));
    add(&program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CTUNNEL_AUDIT_ARCH, 1, 0));
    end(&program, SECCOMP_RET_KILL_PROCESS);
    load(&program, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof allowed_calls / sizeof *allowed_calls; i++)
        end_if_equal(&program, allowed_calls[i], SECCOMP_RET_ALLOW);

    const uint32_t domains[] = {1 /* AF_UNIX */, 2 /* AF_INET */, 10 /* AF_INET6 */, 16 /* AF_NETLINK */};
    allow_values(&program, SYS_socket, 0, domains, 4, refusal(EAFNOSUPPORT));
    // A signal to itself, which ends it, or to one of its threads.
    const uint32_t own[] = {(uint32_t)getpid()};
    allow_values(&program, SYS_kill, 0, own, 1, refusal(EPERM));
    allow_values(&program, SYS_tgkill, 0, own, 1, refusal(EPERM));
    const uint32_t options[] = {PR_SET_NAME, PR_GET_NAME, PR_SET_DUMPABLE, PR_GET_DUMPABLE, PR_SET_NO_NEW_PRIVS,
                                PR_GET_NO_NEW_PRIVS, 0x53564d41 /* PR_SET_VMA */};
    allow_values(&program, SYS_prctl, 0, options, 7, refusal(EPERM));
    // A thread but not a process: CLONE_VM and CLONE_THREAD, and none of the namespaces. The filter cannot see the arguments
    // of clone3; the C library uses clone if clone3 is missing.
    unsigned short jump = begin_call(&program, SYS_clone);
    load(&program, argument(0));
    statement(&program, BPF_ALU | BPF_AND | BPF_K, 0x7e020000 | 0x00010000 | 0x00000100);
    end_if_equal(&program, 0x00010000 | 0x00000100, SECCOMP_RET_ALLOW);
    finish_call(&program, jump, refusal(EPERM));
    // Anything but typing into the terminal: TIOCSTI and TIOCLINUX.
    jump = begin_call(&program, SYS_ioctl);
    load(&program, argument(1));
    end_if_equal(&program, 0x5412, refusal(EPERM));
    end_if_equal(&program, 0x541c, refusal(EPERM));
    finish_call(&program, jump, SECCOMP_RET_ALLOW);
    // Not done, but not refused either: libdispatch would write into the journal about each of its threads.
    end_if_equal(&program, SYS_setpriority, refusal(0));
    end_if_equal(&program, SYS_execve, refusal(EPERM));
    end_if_equal(&program, SYS_execveat, refusal(EPERM));
    // As on a kernel without the call: the caller falls back to another one.
    end(&program, refusal(ENOSYS));
    if (program.count >= MOST_INSTRUCTIONS) return E2BIG;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
    struct sock_fprog whole = {.len = program.count, .filter = program.code};
    long result = syscall(
        SYS_seccomp, SECCOMP_SET_MODE_FILTER, all_threads ? SECCOMP_FILTER_FLAG_TSYNC : 0, &whole);
    // A thread that cannot take the filter is named by a number.
    return result == 0 ? 0 : result > 0 ? EBUSY : errno;
}

#endif

#endif
