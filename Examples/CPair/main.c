// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Two tunnels in one program, each on one end of a socket pair, that are peers: packets written into the other end of the
// first pair leave that of the second, encrypted between them over UDP on this machine. It needs no privileges and no
// arguments. docs/culvert-c.md explains how to link it.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "culvert.h"

// The key pairs of RFC 7748 section 6.1. They are public, so use them only in examples.
static const char *const private_keys[] = {
    "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
    "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
};
static const char *const public_keys[] = {
    "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
    "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
};

enum { count = 2, packet_size = 84, rounds = 10 };

/// This program's state of one tunnel.
struct side {
    culvert_tunnel *tunnel;
    int descriptor;
};

/// Starts a tunnel whose addresses are 10.0.0.1 or 10.0.0.2.
/// @param port where the other one listens; 0: it will find that out.
static int start(struct side *side, int number, unsigned port) {
    int ends[2];
    // SOCK_SEQPACKET preserves message boundaries and reports the closing of an end. Systems without it have SOCK_DGRAM.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) < 0) {
        perror("socketpair");
        return 0;
    }
    char configuration[512];
    int length = snprintf(configuration, sizeof configuration, "private_key=%s\npublic_key=%s\nallowed_ip=10.0.0.%d/32\n",
                          private_keys[number], public_keys[!number], 2 - number);
    if (port != 0)
        snprintf(configuration + length, sizeof configuration - (size_t)length, "endpoint=127.0.0.1:%u\n", port);
    culvert_options options;
    culvert_options_init(&options);
    options.descriptor = ends[1];
    culvert_error error;
    culvert_result result = culvert_start(&options, configuration, &side->tunnel, &error);
    // The tunnel has its own.
    close(ends[1]);
    side->descriptor = ends[0];
    if (result != CULVERT_OK) fprintf(stderr, "error %d: %s\n", result, error.message);
    return result == CULVERT_OK;
}

/// An IPv4 packet from one side to the other, of a protocol that is for experiments.
static void make_packet(unsigned char *packet, int from, unsigned char number) {
    memset(packet, number, packet_size);
    const unsigned char header[20] = {0x45, 0, 0, packet_size, 0, 0, 0, 0, 64, 253, 0, 0,
                                      10, 0, 0, (unsigned char)(1 + from), 10, 0, 0, (unsigned char)(2 - from)};
    memcpy(packet, header, sizeof header);
}

/// Sends a packet from one side and waits until it comes out of the other.
static int carry(struct side *sides, int from, unsigned char number) {
    unsigned char packet[packet_size], arrived[2048];
    make_packet(packet, from, number);
    if (send(sides[from].descriptor, packet, packet_size, 0) != packet_size) return 0;
    struct pollfd poller = {.fd = sides[!from].descriptor, .events = POLLIN};
    if (poll(&poller, 1, 60000) != 1) return 0;
    ssize_t length = recv(sides[!from].descriptor, arrived, sizeof arrived, 0);
    return length == packet_size && memcmp(packet, arrived, packet_size) == 0;
}

static culvert_status status_of(const struct side *side) {
    culvert_status status;
    culvert_status_init(&status);
    culvert_get_status(side->tunnel, &status);
    return status;
}

int main(void) {
    printf("culvert %s\n", culvert_version());
    struct side sides[count] = {{NULL, -1}, {NULL, -1}};
    int works = start(&sides[0], 0, 0) && start(&sides[1], 1, status_of(&sides[0]).port);
    int carried = 0;
    for (int round = 0; works && round < rounds; round++) {
        for (int from = count - 1; works && from >= 0; from--) {
            works = carry(sides, from, (unsigned char)(round + 1));
            carried += works;
        }
    }
    printf("carried %d of %d packets\n", carried, rounds * count);
    for (int number = 0; number < count && sides[number].tunnel; number++) {
        culvert_status status = status_of(&sides[number]);
        printf("side %d: %u of %u peers with a session, %llu bytes sent, %llu bytes received\n", number + 1,
               status.session_count, status.peer_count, (unsigned long long)status.sent_bytes,
               (unsigned long long)status.received_bytes);
    }
    // One is stopped; the other ends because its descriptor does.
    for (int number = 0; number < count && sides[number].tunnel; number++) {
        if (number == 0) culvert_stop(sides[number].tunnel);
        close(sides[number].descriptor);
        culvert_end end = CULVERT_RUNNING;
        works = culvert_wait(sides[number].tunnel, 60000, &end) == CULVERT_OK && works;
        printf("side %d ended: %d\n", number + 1, end);
        culvert_free(sides[number].tunnel);
    }
    return works ? 0 : 1;
}
