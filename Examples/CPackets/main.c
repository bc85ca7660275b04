// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// A custom protocol in the smallest program: it reads IP packets from a descriptor and writes them back with source and
// destination exchanged. The descriptor is one end of a socket pair, and this program writes into the other end; that of a
// TUN device is read and written in the same way. It needs no privileges and no arguments. docs/culvert-c.md explains how to
// link it.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "culvert.h"

enum { rounds = 20, packet_size = 84 };

/// Answers every packet until the packets are closed.
static void *answer(void *context) {
    culvert_packets *packets = context;
    unsigned char packet[65535];
    size_t length;
    culvert_error error;
    culvert_result result;
    while ((result = culvert_packets_read(packets, packet, sizeof packet, -1, &length, &error)) == CULVERT_OK) {
        if (length < 20 || packet[0] >> 4 != 4) continue;
        unsigned char address[4];
        memcpy(address, packet + 12, 4);
        memcpy(packet + 12, packet + 16, 4);
        memcpy(packet + 16, address, 4);
        result = culvert_packets_write(packets, packet, length, &error);
        // A full queue loses a packet, as everywhere on the internet.
        if (result != CULVERT_OK && result != CULVERT_REFUSED) break;
    }
    if (result != CULVERT_ENDED) fprintf(stderr, "error %d: %s\n", result, error.message);
    return NULL;
}

int main(void) {
    printf("culvert %s\n", culvert_version());
    int ends[2];
    // SOCK_SEQPACKET preserves message boundaries and reports the closing of an end. Systems without it have SOCK_DGRAM.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) < 0) {
        perror("socketpair");
        return 1;
    }
    culvert_packets *packets;
    culvert_error error;
    culvert_result result = culvert_packets_open(ends[1], CULVERT_FORMAT_AUTOMATIC, 0, &packets, &error);
    // The packets have their own.
    close(ends[1]);
    if (result != CULVERT_OK) {
        fprintf(stderr, "error %d: %s\n", result, error.message);
        return 1;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, answer, packets) != 0) return 1;
    int answered = 0;
    for (int number = 0; number < rounds; number++) {
        unsigned char packet[packet_size] = {0x45, 0, 0, packet_size, 0, (unsigned char)number, 0, 0, 64, 253};
        memcpy(packet + 12, (unsigned char[]){10, 0, 0, 1, 10, 0, 0, 2}, 8);
        unsigned char reply[packet_size];
        if (send(ends[0], packet, sizeof packet, 0) != packet_size) break;
        if (recv(ends[0], reply, sizeof reply, 0) != packet_size) break;
        answered += reply[15] == 2 && reply[19] == 1 && reply[5] == number;
    }
    printf("%d of %d packets came back\n", answered, rounds);
    // Ends the thread's wait.
    culvert_packets_close(packets);
    pthread_join(thread, NULL);
    culvert_packets_free(packets);
    close(ends[0]);
    return answered == rounds ? 0 : 1;
}
