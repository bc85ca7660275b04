// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if defined(__linux__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "ctunnel_descriptors.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

// The control data of a message with descriptors.
union control {
    char bytes[CMSG_SPACE(sizeof(int) * CTUNNEL_MOST_DESCRIPTORS)];
    struct cmsghdr alignment;
};

int ctunnel_send_descriptors(int socket, const int *descriptors, int count) {
    if (count < 1 || count > CTUNNEL_MOST_DESCRIPTORS) return EINVAL;
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    union control control;
    memset(&control, 0, sizeof control);
    size_t size = sizeof(int) * (size_t)count;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(header), descriptors, size);
    ssize_t sent;
    do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == 1 ? 0 : errno;
}

int ctunnel_receive_descriptors(int socket, int *descriptors, int count) {
    if (count < 1 || count > CTUNNEL_MOST_DESCRIPTORS) return EINVAL;
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    union control control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t received;
    do received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (received < 0 && errno == EINTR);
    if (received < 0) return errno;
    if (received == 0) return EPIPE;
    int found = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        size_t number = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < number; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            if (found < count) descriptors[found++] = descriptor;
            else close(descriptor);
        }
    }
    if (found == count) return 0;
    for (int i = 0; i < found; i++) close(descriptors[i]);
    return EBADMSG;
}

#endif
