// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#ifndef CTUNNEL_DESCRIPTORS_H
#define CTUNNEL_DESCRIPTORS_H

#if defined(__linux__)

/// The most descriptors of one message.
#define CTUNNEL_MOST_DESCRIPTORS 8

/// Sends a byte with these descriptors over a Unix stream socket (unix(7), SCM_RIGHTS). Returns 0 or an error number.
int ctunnel_send_descriptors(int socket, const int *descriptors, int count);

/// Receives a byte with exactly this many descriptors, closed on exec. Does not wait. Returns 0 or an error number: EAGAIN if there
/// is none yet, EPIPE at the end, EBADMSG with another number of descriptors, which are closed.
int ctunnel_receive_descriptors(int socket, int *descriptors, int count);

#endif

#endif
