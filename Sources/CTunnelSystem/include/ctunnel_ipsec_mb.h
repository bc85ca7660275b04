// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#ifndef CTUNNEL_IPSEC_MB_H
#define CTUNNEL_IPSEC_MB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ChaCha20-Poly1305 (RFC 8439) by Intel's multi-buffer library with AVX-512 and IFMA (libipsec-mb1 in Debian), which is loaded at
// run time. The build does not need it.

enum ctunnel_ipsec_mb_result {
    CTUNNEL_IPSEC_MB_LOADED = 0,
    /// Not Linux on x86-64, or the processor or the system lacks AVX-512 or its IFMA part.
    CTUNNEL_IPSEC_MB_NO_PROCESSOR,
    /// No folder of the system has the library.
    CTUNNEL_IPSEC_MB_NOT_INSTALLED,
    /// The dynamic loader refuses the library, or the library lacks a function.
    CTUNNEL_IPSEC_MB_NOT_LOADABLE,
    /// The library is not version 1.3, whose structures this code knows.
    CTUNNEL_IPSEC_MB_OTHER_VERSION,
    /// The library has failed its own test or was built without SAFE_DATA, so that it does not wipe keys; or memory is short.
    CTUNNEL_IPSEC_MB_NOT_READY,
};

/// Loads the library from a folder of the system; `LD_LIBRARY_PATH` has no influence. Repeated calls return the result of the first.
int ctunnel_ipsec_mb_load(void);

/// Whether these features, as an `IMB_MGR` has them, suffice: the processor's, the build's, and a passed self-test.
bool ctunnel_ipsec_mb_is_sufficient(uint64_t features);

/// Seals `byte_count` bytes, and writes 16 bytes more. The key has 32 bytes, the nonce 12. `destination` must equal `source` or not
/// overlap it. Any thread may call this after the library was loaded.
/// Returns false, and writes nothing, if the library is not loaded or the thread's first call finds no memory.
bool ctunnel_ipsec_mb_seal(
    const void *key, const void *nonce, const void *source, size_t byte_count, const void *authenticated,
    size_t authenticated_byte_count, void *destination);

/// Opens `byte_count` bytes, which a tag of 16 bytes follows. `destination` must equal `source` or not overlap it.
/// Returns 1 if the message is authentic. Otherwise returns 0, and `destination` contains zeros.
/// Returns -1, and writes nothing, if the library is not loaded or the thread's first call finds no memory.
int ctunnel_ipsec_mb_open(
    const void *key, const void *nonce, const void *source, size_t byte_count, const void *authenticated,
    size_t authenticated_byte_count, void *destination);

#endif
