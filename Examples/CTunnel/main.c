// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// A tunnel on a TUN device of Linux or a utun device of macOS, which this program makes, until it is interrupted.
//
//   culvert-c-example INTERFACE CONFIGURATION
//
// prints "running" once the tunnel runs, its status for each line that it reads, and why it ended.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/if_tun.h>
#include <net/if.h>
#elif defined(__APPLE__) && __has_include(<net/if_utun.h>) && __has_include(<sys/kern_control.h>)
// The SDK of iOS has no such headers.
#include <net/if_utun.h>
#include <sys/kern_control.h>
#include <sys/socket.h>
#include <sys/sys_domain.h>
#define HAS_UTUN 1
#endif

#include "culvert.h"

#if defined(__linux__)

static int open_tun(const char *name) {
    int descriptor = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return -1;
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(descriptor, TUNSETIFF, &request) < 0) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

#elif defined(HAS_UTUN)

static int open_tun(const char *name) {
    unsigned int number;
    char rest;
    if (sscanf(name, "utun%u%c", &number, &rest) != 1) {
        errno = EINVAL;
        return -1;
    }
    int descriptor = socket(PF_SYSTEM, SOCK_DGRAM, SYSPROTO_CONTROL);
    if (descriptor < 0) return -1;
    struct ctl_info control = {.ctl_name = UTUN_CONTROL_NAME};
    struct sockaddr_ctl address = {.sc_len = sizeof address, .sc_family = AF_SYSTEM, .ss_sysaddr = AF_SYS_CONTROL};
    // The kernel counts from 1, and the names from 0.
    address.sc_unit = number + 1;
    if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) < 0 || ioctl(descriptor, CTLIOCGINFO, &control) < 0) {
        close(descriptor);
        return -1;
    }
    address.sc_id = control.ctl_id;
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) < 0) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

#else

static int open_tun(const char *name) {
    (void)name;
    errno = ENOTSUP;
    return -1;
}

#endif

static char *read_file(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    size_t used = 0, size = 1 << 16;
    char *text = malloc(size + 1);
    while (text && used < size) {
        size_t count = fread(text + used, 1, size - used, file);
        if (count == 0) break;
        used += count;
    }
    fclose(file);
    if (text) text[used] = 0;
    return text;
}

static void log_message(culvert_log_level level, const char *message, void *context) {
    (void)context;
    fprintf(stderr, "%s: %s\n", level == CULVERT_LOG_ERROR ? "error" : "note", message);
}

static void print_status(culvert_tunnel *tunnel) {
    culvert_status status;
    culvert_status_init(&status);
    if (culvert_get_status(tunnel, &status) != CULVERT_OK) return;
    printf("port %u, %u of %u peers with a session, %llu bytes received, %llu bytes sent, %llu packets dropped\n",
           status.port, status.session_count, status.peer_count, (unsigned long long)status.received_bytes,
           (unsigned long long)status.sent_bytes, (unsigned long long)status.dropped_packets);
    culvert_peer peers[16];
    size_t count = 0;
    if (culvert_get_peers(tunnel, peers, 16, &count) != CULVERT_OK) return;
    for (size_t index = 0; index < count && index < 16; index++) {
        printf("peer %02x%02x... at %s, handshake %lld\n", peers[index].public_key[0], peers[index].public_key[1],
               peers[index].endpoint[0] ? peers[index].endpoint : "an unknown place",
               (long long)peers[index].latest_handshake);
    }
    fflush(stdout);
}

static void *answer_lines(void *context) {
    char line[64];
    while (fgets(line, sizeof line, stdin)) print_status(context);
    return NULL;
}

static void *wait_for_signal(void *context) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    int number;
    sigwait(&signals, &number);
    culvert_stop(context);
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: %s INTERFACE CONFIGURATION\n", arguments[0]);
        return 2;
    }
    // Before there are threads, so that none of them takes the signals.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    char *configuration = read_file(arguments[2]);
    if (!configuration) {
        fprintf(stderr, "%s: %s\n", arguments[2], strerror(errno));
        return 1;
    }
    int descriptor = open_tun(arguments[1]);
    if (descriptor < 0) {
        fprintf(stderr, "%s: %s\n", arguments[1], strerror(errno));
        return 1;
    }
    culvert_options options;
    culvert_options_init(&options);
    options.descriptor = descriptor;
    options.log = log_message;
    culvert_tunnel *tunnel = NULL;
    culvert_error error;
    culvert_result result = culvert_start(&options, configuration, &tunnel, &error);
    memset(configuration, 0, strlen(configuration));
    free(configuration);
    if (result != CULVERT_OK) {
        fprintf(stderr, "error %d: %s\n", result, error.message);
        return 1;
    }
    printf("culvert %s running\n", culvert_version());
    fflush(stdout);
    pthread_t reader, waiter;
    pthread_create(&reader, NULL, answer_lines, tunnel);
    pthread_create(&waiter, NULL, wait_for_signal, tunnel);
    culvert_end end = CULVERT_RUNNING;
    culvert_wait(tunnel, -1, &end);
    printf("ended: %d\n", end);
    fflush(stdout);
    // The other threads may be in the middle of a call, so the tunnel is left to the end of the process.
    return end == CULVERT_END_REQUESTED ? 0 : 1;
}
