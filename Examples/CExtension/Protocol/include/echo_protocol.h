// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// The interface of a protocol that is not written in Swift. A protocol in Rust or Go exports the same two functions.
#ifndef ECHO_PROTOCOL_H
#define ECHO_PROTOCOL_H

/// Starts the protocol on a descriptor for IP packets, in the background.
/// @param descriptor A utun socket, a TUN device or one end of a socket pair. The caller keeps it: the protocol uses a duplicate.
/// @return 0, or the culvert_result of the call that failed; nothing runs then.
int start_tun(int descriptor);

/// Ends the protocol: when it returns, its thread has ended and its duplicate is closed. Has no effect if nothing runs.
void stop_tun(void);

#endif
