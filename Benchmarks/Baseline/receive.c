// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// From the network to the TUN device: opens each datagram directly after the previous payload. If it continues the flow, its
// headers are removed again, so that many payloads form one superframe without a copy.

#define _GNU_SOURCE
#include "baseline.h"
#include "checksum.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum { LONGEST_HEADERS = 80, TCP_ACK = 0x10, TCP_PSH = 0x08 };

struct receiver {
    struct cipher cipher;
    uint8_t *message;
    /// The header for the kernel and the superframe behind it.
    uint8_t *frame;
    /// The bytes and packets of the superframe.
    size_t length;
    int packets;
    size_t headers;
    size_t segment_size;
    uint32_t next_sequence;
    bool is_tcp;
    /// Whether no more packets may join.
    bool is_closed;
};

struct receiver *receiver_make(void) {
    struct receiver *receiver = calloc(1, sizeof *receiver);
    if (receiver == NULL) fail("memory");
    cipher_init(&receiver->cipher, 1 - options.role);
    receiver->message = buffer_make();
    receiver->frame = buffer_make();
    return receiver;
}

void receiver_flush(struct receiver *receiver) {
    if (receiver->packets == 0) return;
    uint8_t *header = receiver->frame, *packet = receiver->frame + VNET_HEADER;
    size_t length = receiver->length;
    memset(header, 0, VNET_HEADER);
    if (receiver->packets > 1) {
        size_t field = receiver->is_tcp ? 16 : 6;
        put16(packet + 2, htons((uint16_t)length));
        finish_ip_header(packet);
        header[0] = 1;                         // needs a checksum
        header[1] = receiver->is_tcp ? 1 : 5;  // TCP over IPv4, or UDP
        put16(header + 2, (uint16_t)receiver->headers);
        put16(header + 4, (uint16_t)receiver->segment_size);
        put16(header + 6, 20);
        put16(header + 8, (uint16_t)field);
        if (!receiver->is_tcp) put16(packet + 24, htons((uint16_t)(length - 20)));
        int protocol = receiver->is_tcp ? IPPROTO_TCP : IPPROTO_UDP;
        put16(packet + 20 + field, fold(sum_pseudo_header(packet, protocol, length - 20)));
    }
    ssize_t written = write(tun_descriptor, receiver->frame, VNET_HEADER + length);
    (void)written;
    receiver->packets = 0;
    receiver->length = 0;
}

static inline bool checksum_is_right(const uint8_t *packet, size_t length) {
    uint64_t sum = sum_pseudo_header(packet, packet[9], length - 20);
    return fold(sum_bytes(packet + 20, length - 20, sum)) == 0xffff;
}

/// Begins a superframe with the packet that lies at its place.
static void begin(struct receiver *receiver, const uint8_t *packet, size_t length) {
    receiver->packets = 1;
    receiver->length = length;
    receiver->headers = 20;
    receiver->is_closed = true;
    // No options and no fragments.
    if (packet[0] != 0x45 || (ntohs(get16(packet + 6)) & 0x3fff) != 0) return;
    if (packet[9] == IPPROTO_TCP && length >= 40) {
        size_t headers = 20 + (size_t)(packet[32] >> 4) * 4;
        uint8_t flags = packet[33];
        if (headers < 40 || headers >= length || (flags & ~TCP_PSH) != TCP_ACK) return;
        if (!checksum_is_right(packet, length)) return;
        receiver->is_tcp = true;
        receiver->headers = headers;
        receiver->segment_size = length - headers;
        receiver->next_sequence = ntohl(get32(packet + 24)) + (uint32_t)receiver->segment_size;
        receiver->is_closed = (flags & TCP_PSH) != 0;
    } else if (packet[9] == IPPROTO_UDP && length > 28) {
        if (get16(packet + 26) == 0 || !checksum_is_right(packet, length)) return;
        receiver->is_tcp = false;
        receiver->headers = 28;
        receiver->segment_size = length - 28;
        receiver->is_closed = false;
    }
}

/// Whether a packet continues the flow of the superframe that begins with `first`.
static inline bool continues(
    const struct receiver *receiver, const uint8_t *first, const uint8_t *packet, size_t length
) {
    if (receiver->is_closed || length <= receiver->headers) return false;
    size_t payload = length - receiver->headers;
    if (payload > receiver->segment_size || receiver->length + payload > LONGEST_PACKET) return false;
    // These are the version and type of service; the flags, hop limit and protocol without the checksum; the addresses and
    // ports.
    if (get16(first) != get16(packet) || get32(first + 6) != get32(packet + 6)) return false;
    if (memcmp(first + 12, packet + 12, 12) != 0) return false;
    if (!receiver->is_tcp) return receiver->packets < MOST_SEGMENTS && get16(packet + 26) != 0;
    // These are the sequence number, the acknowledgement, the header's length, the flags and the options.
    if (ntohl(get32(packet + 24)) != receiver->next_sequence || get32(first + 28) != get32(packet + 28)) return false;
    if (first[32] != packet[32] || (packet[33] & ~TCP_PSH) != TCP_ACK) return false;
    return memcmp(first + 40, packet + 40, receiver->headers - 40) == 0;
}

static inline void join(struct receiver *receiver, uint8_t *first, size_t payload, bool pushes) {
    receiver->packets++;
    receiver->length += payload;
    receiver->next_sequence += (uint32_t)payload;
    if (payload < receiver->segment_size) receiver->is_closed = true;
    if (receiver->is_tcp && pushes) {
        first[33] |= TCP_PSH;
        receiver->is_closed = true;
    }
}

/// The length in a packet's IPv4 header, or zero if the length is invalid.
static inline size_t packet_length(const uint8_t *packet, size_t capacity) {
    if (capacity < 20 || packet[0] >> 4 != 4) return 0;
    size_t length = ntohs(get16(packet + 2));
    return length >= 20 && length <= capacity ? length : 0;
}

static inline void take(struct receiver *receiver, const uint8_t *datagram, size_t count) {
    if (count < DATA_HEADER + TAG || datagram[0] != 4) return;
    uint64_t counter;
    memcpy(&counter, datagram + 8, 8);
    size_t sealed = count - DATA_HEADER - TAG;
    uint8_t *first = receiver->frame + VNET_HEADER;
    if (receiver->packets > 0 && (receiver->is_closed || receiver->length + sealed > LONGEST_PACKET + LONGEST_HEADERS))
        receiver_flush(receiver);
    if (receiver->packets == 0) {
        if (!cipher_open(&receiver->cipher, first, datagram + DATA_HEADER, sealed, counter)) return;
        size_t length = packet_length(first, sealed);
        if (length > 0) begin(receiver, first, length);
        return;
    }
    // The packet's headers overwrite the end of the payload before it, so those bytes are saved and restored.
    size_t headers = receiver->headers;
    uint8_t *packet = first + receiver->length - headers;
    uint8_t kept[LONGEST_HEADERS], own[LONGEST_HEADERS];
    memcpy(kept, packet, headers);
    bool is_open = cipher_open(&receiver->cipher, packet, datagram + DATA_HEADER, sealed, counter);
    size_t length = is_open ? packet_length(packet, sealed) : 0;
    if (length == 0) {
        memcpy(packet, kept, headers);
        return;
    }
    if (continues(receiver, first, packet, length) && checksum_is_right(packet, length)) {
        bool pushes = (packet[33] & TCP_PSH) != 0;
        memcpy(packet, kept, headers);
        join(receiver, first, length - headers, pushes);
        return;
    }
    size_t head = length < headers ? length : headers;
    memcpy(own, packet, head);
    memcpy(packet, kept, headers);
    receiver_flush(receiver);
    memcpy(first, own, head);
    memmove(first + head, packet + head, length - head);
    begin(receiver, first, length);
}

bool receiver_read(struct receiver *receiver, bool waits) {
    struct iovec vector = {receiver->message, LONGEST_PACKET};
    char control[64] __attribute__((aligned(8)));
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t received = recvmsg(udp_descriptor, &message, waits ? 0 : MSG_DONTWAIT);
    if (received <= 0) return false;
    size_t count = (size_t)received, size = count;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != IPPROTO_UDP || header->cmsg_type != UDP_GRO) continue;
        int each;
        memcpy(&each, CMSG_DATA(header), sizeof each);
        if (each > 0) size = (size_t)each;
    }
    for (size_t at = 0; at < count; at += size) take(receiver, receiver->message + at, count - at < size ? count - at : size);
    return true;
}
