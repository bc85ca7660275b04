// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Internet checksums (RFC 1071) in the machine's byte order, and unaligned fields.

#ifndef CHECKSUM_H
#define CHECKSUM_H

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

static inline void put16(uint8_t *at, uint16_t value) { memcpy(at, &value, 2); }

static inline uint16_t get16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, 2);
    return value;
}

static inline uint32_t get32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

/// Adds `count` bytes to `sum`. Four sums side by side, which the compiler turns into vectors.
static inline uint64_t sum_bytes(const uint8_t *bytes, size_t count, uint64_t sum) {
    uint64_t lanes[4] = {0};
    size_t at = 0;
    for (; at + 64 <= count; at += 64) {
        uint32_t words[16];
        memcpy(words, bytes + at, 64);
        for (int word = 0; word < 16; word += 4) {
            for (int lane = 0; lane < 4; lane++) lanes[lane] += words[word + lane];
        }
    }
    sum += lanes[0] + lanes[1] + lanes[2] + lanes[3];
    for (; at + 4 <= count; at += 4) sum += get32(bytes + at);
    if (at + 2 <= count) {
        sum += get16(bytes + at);
        at += 2;
    }
    if (at < count) sum += bytes[at];
    return sum;
}

static inline uint16_t fold(uint64_t sum) {
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

/// The sum of the pseudo-header of an IPv4 packet.
static inline uint64_t sum_pseudo_header(const uint8_t *packet, int protocol, size_t length) {
    return sum_bytes(packet + 12, 8, 0) + htons((uint16_t)protocol) + htons((uint16_t)length);
}

/// Computes the checksum of an IPv4 header.
static inline void finish_ip_header(uint8_t *packet) {
    put16(packet + 10, 0);
    put16(packet + 10, (uint16_t)~fold(sum_bytes(packet, (size_t)(packet[0] & 15) * 4, 0)));
}

#endif
