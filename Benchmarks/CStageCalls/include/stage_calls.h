// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Replaces the kernel while single stages are measured, so that only the stages' own work counts. The linker redirects
// ctunnel_read and the other system calls of a lane to this code. It handles the calls for two descriptors itself.

#ifndef STAGE_CALLS_H
#define STAGE_CALLS_H

#include <stddef.h>
#include <stdint.h>

/// Handles the calls for these two descriptors from now on. A negative number stands for no descriptor.
void stage_calls_begin(int tun, int udp);

/// The next read of the TUN device returns these bytes, once. The caller keeps them valid until then.
void stage_calls_offer_frame(const void *bytes, size_t length);

/// The next receive returns these bytes, once, as datagrams of `segment` bytes that the kernel coalesced.
void stage_calls_offer_datagrams(const void *bytes, size_t length, size_t segment);

/// The time in nanoseconds that these calls took so far, mostly for copies. It is the kernel's work and not the stage's.
int64_t stage_calls_excluded(void);

/// Frames written to the TUN device and messages sent so far.
uint64_t stage_calls_frames(void);
uint64_t stage_calls_messages(void);

/// Whether the program was built with valgrind's header, so that it can start and stop callgrind's count.
int stage_callgrind_is_known(void);
/// Starts or stops counting instructions.
void stage_callgrind_toggle(void);
/// Makes callgrind write its counts under a name and restart from zero.
void stage_callgrind_dump(const char *name);

/// Whether this processor, as the program sees it, has AVX2, and AVX-512.
int stage_has_avx2(void);
int stage_has_avx512(void);

#endif
