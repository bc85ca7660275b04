// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// A tunnel with WireGuard's data framing under a fixed key, and nothing else: no handshake, replay window, timers or routing;
// IPv4 only. It contains only the work that every userspace tunnel must do, so it is a yardstick for the data path. See
// README.md.

#define _GNU_SOURCE
#include "baseline.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

struct options options = {.encrypts = true, .mtu = 1420, .tun = "baseline0"};
int tun_descriptor;
int udp_descriptor;

static const char usage[] =
    "usage: baseline --tun NAME --role 0|1 --local ADDRESS:PORT --peer ADDRESS:PORT\n"
    "                [--crypto boring|none] [--single] [--mtu BYTES]\n";

_Noreturn void fail(const char *what) {
    perror(what);
    exit(1);
}

uint8_t *buffer_make(void) {
    uint8_t *buffer = aligned_alloc(4096, BUFFER);
    if (buffer == NULL) fail("memory");
    return buffer;
}

_Noreturn static void misused(const char *what) {
    fprintf(stderr, "baseline: %s\n%s", what, usage);
    exit(2);
}

static void parse(int count, char **words) {
    for (int at = 1; at < count; at++) {
        const char *word = words[at];
        if (strcmp(word, "--single") == 0) {
            options.single_thread = true;
            continue;
        }
        if (strcmp(word, "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        }
        if (at + 1 >= count) misused("an option is unknown or lacks its value");
        const char *value = words[++at];
        if (strcmp(word, "--tun") == 0 && strlen(value) < IFNAMSIZ) {
            options.tun = value;
        } else if (strcmp(word, "--role") == 0 && (strcmp(value, "0") == 0 || strcmp(value, "1") == 0)) {
            options.role = atoi(value);
        } else if (strcmp(word, "--local") == 0) {
            options.local = value;
        } else if (strcmp(word, "--peer") == 0) {
            options.peer = value;
        } else if (strcmp(word, "--crypto") == 0 && (strcmp(value, "boring") == 0 || strcmp(value, "none") == 0)) {
            options.encrypts = strcmp(value, "boring") == 0;
        } else if (strcmp(word, "--mtu") == 0 && atoi(value) >= 68 && atoi(value) <= 9000) {
            options.mtu = atoi(value);
        } else {
            misused("an option is unknown or its value wrong");
        }
    }
    if (options.local == NULL || options.peer == NULL) misused("--local and --peer are needed");
}

static struct sockaddr_in parse_address(const char *text) {
    char host[INET_ADDRSTRLEN];
    const char *colon = strchr(text, ':');
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (colon == NULL || (size_t)(colon - text) >= sizeof host) misused("an address is wrong");
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = 0;
    int port = atoi(colon + 1);
    if (port <= 0 || port > 65535 || inet_pton(AF_INET, host, &address.sin_addr) != 1) misused("an address is wrong");
    address.sin_port = htons((uint16_t)port);
    return address;
}

static void open_tun(void) {
    tun_descriptor = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (tun_descriptor < 0) fail("/dev/net/tun");
    struct ifreq request;
    memset(&request, 0, sizeof request);
    strncpy(request.ifr_name, options.tun, IFNAMSIZ - 1);
    request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    if (ioctl(tun_descriptor, TUNSETIFF, &request) < 0) fail("TUNSETIFF");
    unsigned tcp = TUN_F_CSUM | TUN_F_TSO4;
    if (ioctl(tun_descriptor, TUNSETOFFLOAD, tcp) < 0) fail("TUNSETOFFLOAD");
    // Linux 6.2 and newer only; the kernel wants both families or none.
    if (ioctl(tun_descriptor, TUNSETOFFLOAD, tcp | TUN_F_USO4 | TUN_F_USO6) < 0) perror("no UDP segmentation");
}

static void open_udp(void) {
    struct sockaddr_in local = parse_address(options.local), peer = parse_address(options.peer);
    int buffer = 7 << 20, on = 1;
    udp_descriptor = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (udp_descriptor < 0) fail("socket");
    if (bind(udp_descriptor, (struct sockaddr *)&local, sizeof local) < 0) fail("bind");
    setsockopt(udp_descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
    setsockopt(udp_descriptor, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
    if (setsockopt(udp_descriptor, IPPROTO_UDP, UDP_GRO, &on, sizeof on) < 0) perror("no UDP coalescing");
    if (connect(udp_descriptor, (struct sockaddr *)&peer, sizeof peer) < 0) fail("connect");
}

/// Reads from both sides in turn, and sleeps while neither has data.
_Noreturn static void run_single(void) {
    struct transmitter *transmitter = transmitter_make();
    struct receiver *receiver = receiver_make();
    if (fcntl(tun_descriptor, F_SETFL, O_NONBLOCK) < 0) fail("O_NONBLOCK");
    struct pollfd polled[2] = {{tun_descriptor, POLLIN, 0}, {udp_descriptor, POLLIN, 0}};
    for (;;) {
        poll(polled, 2, -1);
        bool again = true;
        while (again) {
            again = false;
            // The descriptor is non-blocking, so `true` does not wait.
            for (int turn = 0; turn < BURST && transmitter_read(transmitter, true); turn++) again = true;
            transmitter_flush(transmitter);
            for (int turn = 0; turn < BURST && receiver_read(receiver, false); turn++) again = true;
            receiver_flush(receiver);
        }
    }
}

static void *transmit(void *unused) {
    (void)unused;
    struct transmitter *transmitter = transmitter_make();
    for (;;) {
        if (!transmitter_read(transmitter, true)) continue;
        while (transmitter_read(transmitter, false)) continue;
        transmitter_flush(transmitter);
    }
    return NULL;
}

_Noreturn static void receive(void) {
    struct receiver *receiver = receiver_make();
    for (;;) {
        if (!receiver_read(receiver, true)) continue;
        for (int turn = 1; turn < BURST && receiver_read(receiver, false); turn++) continue;
        receiver_flush(receiver);
    }
}

int main(int count, char **words) {
    parse(count, words);
    open_tun();
    open_udp();
    signal(SIGPIPE, SIG_IGN);
    if (options.single_thread) run_single();
    pthread_t thread;
    if (pthread_create(&thread, NULL, transmit, NULL) != 0) fail("thread");
    receive();
}
