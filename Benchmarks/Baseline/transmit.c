// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// From the TUN device to the network: splits superframes, seals each packet from its place in the superframe into a slab, and
// passes the slab to the kernel as one message, which the kernel splits into datagrams.

#define _GNU_SOURCE
#include "baseline.h"
#include "checksum.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

struct __attribute__((packed)) vnet_header {
    uint8_t flags, segmentation;
    uint16_t header_length, segment_size, checksum_start, checksum_offset;
};

enum { NEEDS_CHECKSUM = 1, SEGMENTATION_TCP4 = 1, SEGMENTATION_UDP4 = 5, LONGEST_HEADERS = 120 };

struct transmitter {
    struct cipher cipher;
    uint64_t counter;
    uint8_t *frame;
    /// Consecutive datagrams of one size; only the last may be shorter.
    uint8_t *slab;
    size_t used;
    size_t segment_size;
    int segments;
    bool is_closed;
};

struct transmitter *transmitter_make(void) {
    struct transmitter *transmitter = calloc(1, sizeof *transmitter);
    if (transmitter == NULL) fail("memory");
    cipher_init(&transmitter->cipher, options.role);
    transmitter->frame = buffer_make();
    transmitter->slab = buffer_make();
    return transmitter;
}

void transmitter_flush(struct transmitter *transmitter) {
    if (transmitter->segments == 0) return;
    struct iovec vector = {transmitter->slab, transmitter->used};
    char control[CMSG_SPACE(sizeof(uint16_t))] __attribute__((aligned(8))) = {0};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (transmitter->segments > 1) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = IPPROTO_UDP;
        header->cmsg_type = UDP_SEGMENT;
        header->cmsg_len = CMSG_LEN(sizeof(uint16_t));
        put16(CMSG_DATA(header), (uint16_t)transmitter->segment_size);
    }
    // A datagram that the kernel refuses is lost, as on any network.
    ssize_t sent = sendmsg(udp_descriptor, &message, 0);
    (void)sent;
    transmitter->used = 0;
    transmitter->segments = 0;
    transmitter->is_closed = false;
}

/// Seals one packet. The `PADDING` bytes behind it are overwritten meanwhile and then restored.
static inline void emit(struct transmitter *transmitter, uint8_t *packet, size_t length) {
    size_t mtu = (size_t)options.mtu;
    size_t padded = (length + PADDING - 1) & ~(size_t)(PADDING - 1);
    if (padded > mtu) padded = length > mtu ? length : mtu;
    size_t size = DATA_HEADER + padded + TAG;
    if (size > LONGEST_MESSAGE) return;
    bool fits = !transmitter->is_closed && size <= transmitter->segment_size &&
                transmitter->used + size <= LONGEST_MESSAGE && transmitter->segments < MOST_SEGMENTS;
    if (transmitter->segments > 0 && !fits) transmitter_flush(transmitter);
    if (transmitter->segments == 0) {
        transmitter->segment_size = size;
    } else if (size < transmitter->segment_size) {
        transmitter->is_closed = true;
    }

    uint8_t *out = transmitter->slab + transmitter->used;
    uint32_t type = 4, index = 4;
    memcpy(out, &type, 4);
    memcpy(out + 4, &index, 4);
    memcpy(out + 8, &transmitter->counter, 8);
    uint8_t saved[PADDING];
    size_t padding = padded - length;
    memcpy(saved, packet + length, padding);
    memset(packet + length, 0, padding);
    cipher_seal(&transmitter->cipher, out + DATA_HEADER, packet, padded, transmitter->counter++);
    memcpy(packet + length, saved, padding);
    transmitter->used += size;
    transmitter->segments++;
}

static inline uint16_t not_zero(uint16_t checksum) { return checksum ? checksum : 0xffff; }

/// Seals a packet that is not part of a superframe. The kernel may have left its checksum to this program.
static void single(struct transmitter *transmitter, const struct vnet_header *header, uint8_t *packet, size_t length) {
    if (header->flags & NEEDS_CHECKSUM) {
        size_t start = header->checksum_start, field = start + header->checksum_offset;
        if (field + 2 > length) return;
        uint16_t seed = get16(packet + field);
        put16(packet + field, 0);
        uint16_t checksum = (uint16_t)~fold(sum_bytes(packet + start, length - start, seed));
        put16(packet + field, not_zero(checksum));
    }
    emit(transmitter, packet, length);
}

/// Seals the segments of a superframe. Each segment's headers are written directly in front of its payload, over the end of
/// the segment before it, which is sealed by then; so no payload is copied.
static void superframe(
    struct transmitter *transmitter, const struct vnet_header *header, uint8_t *packet, size_t length
) {
    int kind = header->segmentation & 0x7f;
    bool is_tcp = kind == SEGMENTATION_TCP4;
    size_t transport = header->checksum_start, size = header->segment_size;
    if ((!is_tcp && kind != SEGMENTATION_UDP4) || size == 0 || transport < 20 || transport + 20 > length) return;
    size_t headers = transport + (is_tcp ? (size_t)(packet[transport + 12] >> 4) * 4 : 8);
    if (headers > LONGEST_HEADERS || headers > length) return;

    uint8_t first[LONGEST_HEADERS];
    memcpy(first, packet, headers);
    size_t payload = length - headers;
    size_t field = transport + (is_tcp ? 16 : 6);
    uint32_t sequence = ntohl(get32(first + transport + 4));
    uint16_t number = ntohs(get16(first + 4));
    uint8_t flags = is_tcp ? first[transport + 13] : 0;
    put16(first + field, 0);
    uint64_t addresses = sum_bytes(first + 12, 8, 0) + htons(is_tcp ? IPPROTO_TCP : IPPROTO_UDP);
    for (size_t at = 0, segment = 0; at < payload; at += size, segment++) {
        size_t count = payload - at < size ? payload - at : size;
        uint8_t *out = packet + at;
        memcpy(out, first, headers);
        put16(out + 2, htons((uint16_t)(headers + count)));
        put16(out + 4, htons((uint16_t)(number + segment)));
        finish_ip_header(out);
        if (is_tcp) {
            uint32_t next = htonl(sequence + (uint32_t)at);
            memcpy(out + transport + 4, &next, 4);
            // Only the last segment has FIN and PSH.
            if (at + count < payload) out[transport + 13] = flags & (uint8_t)~9;
        } else {
            put16(out + transport + 4, htons((uint16_t)(8 + count)));
        }
        uint64_t sum = addresses + htons((uint16_t)(headers - transport + count));
        uint16_t checksum = (uint16_t)~fold(sum_bytes(out + transport, headers - transport + count, sum));
        put16(out + field, not_zero(checksum));
        emit(transmitter, out, headers + count);
    }
}

bool transmitter_read(struct transmitter *transmitter, bool waits) {
    struct iovec vector = {transmitter->frame, VNET_HEADER + LONGEST_PACKET};
    ssize_t count = waits ? readv(tun_descriptor, &vector, 1) : preadv2(tun_descriptor, &vector, 1, -1, RWF_NOWAIT);
    if (count <= VNET_HEADER) return false;
    struct vnet_header header;
    memcpy(&header, transmitter->frame, sizeof header);
    uint8_t *packet = transmitter->frame + VNET_HEADER;
    size_t length = (size_t)count - VNET_HEADER;
    // IPv4 only.
    if (length < 20 || packet[0] >> 4 != 4) return true;
    if (header.segmentation == 0) {
        single(transmitter, &header, packet, length);
    } else {
        superframe(transmitter, &header, packet, length);
    }
    return true;
}
