// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// The shared parts of the baseline: options, descriptors, and the layout of a datagram.

#ifndef BASELINE_H
#define BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /// Bytes in front of the sealed packet: type, receiver's index, counter; as in WireGuard's transport data.
    DATA_HEADER = 16,
    /// The bytes behind it, in which the AEAD puts its tag.
    TAG = 16,
    /// Packets are padded to a multiple of this before they are sealed.
    PADDING = 16,
    /// `struct virtio_net_hdr` without the count of merged buffers.
    VNET_HEADER = 10,
    /// The longest IP packet, and so the longest superframe.
    LONGEST_PACKET = 65535,
    /// The longest UDP payload over IPv4: the limit of one message that the kernel segments.
    LONGEST_MESSAGE = 65507,
    /// The most datagrams of one message, and the most packets of one superframe.
    MOST_SEGMENTS = 64,
    /// The number of times that one side is read before the other side gets its turn.
    BURST = 8,
    /// The length of each buffer: the longest packet, its padding, and room for a header in front.
    BUFFER = 1 << 17,
};

struct options {
    bool encrypts;
    bool single_thread;
    int mtu;
    /// 0 or 1. Each end opens with the key that the other end seals with.
    int role;
    const char *tun;
    const char *local;
    const char *peer;
};

extern struct options options;
extern int tun_descriptor;
extern int udp_descriptor;

/// One direction's key.
struct cipher {
    void *context;
};

void cipher_init(struct cipher *cipher, int direction);
/// Seals `count` bytes of `source` to `out`, the tag behind them.
void cipher_seal(const struct cipher *cipher, uint8_t *out, const uint8_t *source, size_t count, uint64_t counter);
/// Opens `count` bytes of `source`, the tag behind them, to `out`, which may be the same.
bool cipher_open(const struct cipher *cipher, uint8_t *out, const uint8_t *source, size_t count, uint64_t counter);

struct transmitter;
struct receiver;
struct transmitter *transmitter_make(void);
struct receiver *receiver_make(void);
/// Reads one frame from the TUN device and seals its packets. Returns false if there was none.
bool transmitter_read(struct transmitter *transmitter, bool waits);
/// Sends the sealed datagrams.
void transmitter_flush(struct transmitter *transmitter);
/// Receives one message and opens its datagrams. Returns false if there was none.
bool receiver_read(struct receiver *receiver, bool waits);
/// Writes the packets that are joined so far.
void receiver_flush(struct receiver *receiver);

/// A buffer of `BUFFER` bytes.
uint8_t *buffer_make(void);
_Noreturn void fail(const char *what);

#endif
