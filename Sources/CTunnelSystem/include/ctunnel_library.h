// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// The C library under one name: `import CTunnelSystem` stands for Glibc, Musl or Darwin. Functions that Swift can use only
// with the help of that module's own Swift code are declared here again, with their names there.

#ifndef CTUNNEL_LIBRARY_H
#define CTUNNEL_LIBRARY_H

#if defined(__APPLE__) && __has_feature(modules)
#pragma clang module import Darwin
#else

#if defined(__linux__)
#include <features.h>
#endif
// Swift's own module of this library, if there is one: Swift hides declarations that a second module repeats from files that
// import only the first (for example the kinds of sockets).
#if defined(__GLIBC__) && defined(__swift__)
#pragma clang module import SwiftGlibc
#endif

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/inotify.h>
#endif

#define CTUNNEL_SWIFT_NAME(name) __attribute__((swift_name(name)))

static inline int ctunnel_errno(void) CTUNNEL_SWIFT_NAME("getter:errno()");
static inline int ctunnel_errno(void) { return errno; }

static inline void ctunnel_set_errno(int number) CTUNNEL_SWIFT_NAME("setter:errno(newValue:)");
static inline void ctunnel_set_errno(int number) { errno = number; }

typedef void (*ctunnel_signal_handler)(int);
static inline ctunnel_signal_handler ctunnel_ignore_signal(void) CTUNNEL_SWIFT_NAME("getter:SIG_IGN()");
static inline ctunnel_signal_handler ctunnel_ignore_signal(void) { return SIG_IGN; }

static inline ctunnel_signal_handler ctunnel_default_signal(void) CTUNNEL_SWIFT_NAME("getter:SIG_DFL()");
static inline ctunnel_signal_handler ctunnel_default_signal(void) { return SIG_DFL; }

static inline void *ctunnel_map_failed(void) CTUNNEL_SWIFT_NAME("getter:MAP_FAILED()");
static inline void *ctunnel_map_failed(void) { return MAP_FAILED; }

static inline int ctunnel_open(const char *path, int flags, mode_t mode) CTUNNEL_SWIFT_NAME("open(_:_:_:)");
static inline int ctunnel_open(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

static inline int ctunnel_openat_existing(int folder, const char *path, int flags) CTUNNEL_SWIFT_NAME("openat(_:_:_:)");
static inline int ctunnel_openat_existing(int folder, const char *path, int flags) {
    return openat(folder, path, flags);
}

static inline int ctunnel_openat(int folder, const char *path, int flags, mode_t mode)
    CTUNNEL_SWIFT_NAME("openat(_:_:_:_:)");
static inline int ctunnel_openat(int folder, const char *path, int flags, mode_t mode) {
    return openat(folder, path, flags, mode);
}

static inline int ctunnel_fcntl_get(int descriptor, int command) CTUNNEL_SWIFT_NAME("fcntl(_:_:)");
static inline int ctunnel_fcntl_get(int descriptor, int command) { return fcntl(descriptor, command); }

static inline int ctunnel_fcntl(int descriptor, int command, int value) CTUNNEL_SWIFT_NAME("fcntl(_:_:_:)");
static inline int ctunnel_fcntl(int descriptor, int command, int value) { return fcntl(descriptor, command, value); }

#endif

#include <sys/ioctl.h>
#include <sys/stat.h>

// Of the type that the mode of a file has: as macros they are numbers of another.
static const mode_t CTUNNEL_S_IFMT = S_IFMT;
static const mode_t CTUNNEL_S_IFREG = S_IFREG;
static const mode_t CTUNNEL_S_IFDIR = S_IFDIR;
static const mode_t CTUNNEL_S_IFSOCK = S_IFSOCK;
static const mode_t CTUNNEL_S_ISVTX = S_ISVTX;

// When a file's bytes were changed last, in seconds since 1970: the member has another name in each library.
static inline int64_t ctunnel_modified(const struct stat *status) { return status->st_mtime; }

/// Reads the size of a terminal: Swift considers `struct winsize` a part of its own modules. Returns 0 or -1.
static inline int ctunnel_terminal_size(int descriptor, unsigned short *columns, unsigned short *rows) {
    struct winsize size = {0};
    if (ioctl(descriptor, TIOCGWINSZ, &size) != 0) return -1;
    *columns = size.ws_col;
    *rows = size.ws_row;
    return 0;
}

#endif
