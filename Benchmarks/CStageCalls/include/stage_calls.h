// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Replaces the kernel while single stages are measured, so that only their own work counts: the linker redirects the
// program's calls of read, write and similar functions to this code, which answers those for two descriptors itself.

#ifndef STAGE_CALLS_H
#define STAGE_CALLS_H

#include <stddef.h>
#include <stdint.h>

/// Answers the calls for these two descriptors from now on; negative numbers for none.
void stage_calls_begin(int tun, int udp);

/// The next read of the TUN device gives these bytes, once; they must stay where they are.
void stage_calls_offer_frame(const void *bytes, size_t length);

/// The next receive gives these bytes, once, as datagrams of `segment` bytes that arrived joined.
void stage_calls_offer_datagrams(const void *bytes, size_t length, size_t segment);

/// The time in nanoseconds that answering took so far, copying above all: the kernel's work, not the stage's.
int64_t stage_calls_excluded(void);

/// Frames written to the TUN device and messages sent so far.
uint64_t stage_calls_frames(void);
uint64_t stage_calls_messages(void);

/// Whether the program was built with valgrind's header, and so can tell callgrind what to count.
int stage_callgrind_is_known(void);
/// Begins or ends counting instructions.
void stage_callgrind_toggle(void);
/// Makes callgrind write its counts under a name and restart from zero.
void stage_callgrind_dump(const char *name);

/// Whether this processor, as the program sees it, has AVX2, and AVX-512.
int stage_has_avx2(void);
int stage_has_avx512(void);

#endif
