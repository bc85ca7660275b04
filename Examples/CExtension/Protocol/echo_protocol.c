// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// A protocol in C for an extension, on the packet functions of culvert.h: it answers ping for every address. Your protocol
// seals packets here and sends them to its server.
#include "echo_protocol.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "culvert.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static culvert_packets *running;
static pthread_t thread;

static void swap(uint8_t *one, uint8_t *two, size_t size) {
    uint8_t copy[16];
    memcpy(copy, one, size);
    memcpy(one, two, size);
    memcpy(two, copy, size);
}

/// Adds a number to the checksum of an ICMP message (RFC 1624). Exchanging the addresses does not change the checksum.
static void adjust(uint8_t *message, uint32_t amount) {
    uint32_t sum = ((uint32_t)message[2] << 8 | message[3]) + amount;
    sum = (sum & 0xffff) + (sum >> 16);
    message[2] = (uint8_t)(sum >> 8);
    message[3] = (uint8_t)sum;
}

/// Turns an echo request into its reply. Returns 0 if the packet is something else.
static int make_reply(uint8_t *packet, size_t length) {
    if (length >= 28 && packet[0] >> 4 == 4 && packet[9] == 1) {
        size_t header = (size_t)(packet[0] & 15) * 4;
        if (header < 20 || length < header + 8 || packet[header] != 8) return 0;
        swap(packet + 12, packet + 16, 4);
        packet[header] = 0;
        adjust(packet + header, 0x0800);
        return 1;
    }
    if (length >= 48 && packet[0] >> 4 == 6 && packet[6] == 58 && packet[40] == 128) {
        swap(packet + 8, packet + 24, 16);
        packet[40] = 129;
        // Subtracts 0x0100.
        adjust(packet + 40, 0xfeff);
        return 1;
    }
    return 0;
}

static void *answer(void *context) {
    culvert_packets *packets = context;
    static uint8_t packet[65535];
    size_t length;
    for (;;) {
        culvert_result result = culvert_packets_read(packets, packet, sizeof packet, -1, &length, NULL);
        if (result == CULVERT_TRUNCATED) continue;
        // CULVERT_ENDED after stop_tun, or if the tunnel has ended.
        if (result != CULVERT_OK) return NULL;
        if (!make_reply(packet, length)) continue;
        result = culvert_packets_write(packets, packet, length, NULL);
        // A full queue loses a packet, as everywhere on the internet.
        if (result != CULVERT_OK && result != CULVERT_REFUSED) return NULL;
    }
}

int start_tun(int descriptor) {
    pthread_mutex_lock(&lock);
    culvert_result result = CULVERT_SYSTEM;
    culvert_packets *packets = NULL;
    if (!running) result = culvert_packets_open(descriptor, CULVERT_FORMAT_AUTOMATIC, 0, &packets, NULL);
    if (packets && pthread_create(&thread, NULL, answer, packets) != 0) {
        culvert_packets_free(packets);
        packets = NULL;
        result = CULVERT_SYSTEM;
    }
    if (packets) running = packets;
    pthread_mutex_unlock(&lock);
    return result;
}

void stop_tun(void) {
    pthread_mutex_lock(&lock);
    if (running) {
        // Ends the thread's wait.
        culvert_packets_close(running);
        pthread_join(thread, NULL);
        culvert_packets_free(running);
        running = NULL;
    }
    pthread_mutex_unlock(&lock);
}
