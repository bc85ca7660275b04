// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A WireGuard tunnel on a descriptor, for programs in C and in languages that call C; and the packets of a descriptor
/// alone, for your own protocol.
///
/// Every function may be called on any thread, but not in a signal handler, because it takes locks. No function keeps a pointer
/// argument, except the log function's context. Structures begin with their own size, so that later versions can add members at
/// the end: initialise them with their culvert_..._init function. No function writes to standard output or error, or installs a
/// signal handler.
///
/// docs/culvert-c.md explains how to link a program. Other symbols of the libraries are not public interface.
#ifndef CULVERT_H
#define CULVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#pragma clang assume_nonnull begin
#define CULVERT_NULLABLE _Nullable
#else
#define CULVERT_NULLABLE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// A tunnel that was started. Free it with culvert_free.
typedef struct culvert_tunnel culvert_tunnel;

/// The packet port of a descriptor without a tunnel. Free it with culvert_packets_free.
typedef struct culvert_packets culvert_packets;

/// The result of a call.
typedef int32_t culvert_result;
enum {
    /// Success.
    CULVERT_OK = 0,
    /// An argument is invalid: null where that is not allowed, a structure of unknown size, a number out of range.
    CULVERT_INVALID_ARGUMENT = 1,
    /// The configuration has errors, or exceeds the memory limit.
    CULVERT_INVALID_CONFIGURATION = 2,
    /// Packets cannot be read from and written to the descriptor.
    CULVERT_INVALID_DESCRIPTOR = 3,
    /// The name of an endpoint has no address, or none was found in time.
    CULVERT_NO_ADDRESS = 4,
    /// The system refused something: memory, a thread, a port.
    CULVERT_SYSTEM = 5,
    /// The tunnel has ended, or the packet port was closed or its interface removed.
    CULVERT_ENDED = 6,
    /// It did not happen within the time given.
    CULVERT_TIMED_OUT = 7,
    /// This cannot be done inside of the log function.
    CULVERT_IN_CALLBACK = 8,
    /// Another thread interrupted the wait for a packet.
    CULVERT_INTERRUPTED = 9,
    /// The packet does not fit the buffer, and was cut.
    CULVERT_TRUNCATED = 10,
    /// The system refused the packet: the interface is down, its queue is full, or the bytes are not an IP packet.
    CULVERT_REFUSED = 11,
};

/// The error of a failed call, for people.
typedef struct culvert_error {
    /// As the call's result.
    culvert_result result;
    /// The system's error number; 0 if there is none.
    int32_t system_error;
    /// One line of UTF-8 without secrets, truncated to fit, ended by a zero byte.
    char message[504];
} culvert_error;

/// The format of packets on the descriptor.
typedef int32_t culvert_format;
enum {
    /// Detected from the descriptor: a TUN device, a utun socket, or a socket with one packet in each message.
    CULVERT_FORMAT_AUTOMATIC = 0,
    /// A TUN device (Linux) or utun socket (Darwin). Offloads are used where the device has them.
    CULVERT_FORMAT_INTERFACE = 1,
    /// One IP packet in each read and write, without a header: a socket pair that preserves message boundaries (SOCK_DGRAM,
    /// SOCK_SEQPACKET). With SOCK_DGRAM, only a write detects that the other end was closed.
    CULVERT_FORMAT_PACKETS = 2,
};

/// How much a log message matters.
typedef int32_t culvert_log_level;
enum {
    CULVERT_LOG_NONE = 0,
    /// Something does not work.
    CULVERT_LOG_ERROR = 1,
    /// Messages for developers.
    CULVERT_LOG_VERBOSE = 2,
};

/// Takes a message: UTF-8 without secrets, ended by a zero byte, valid during the call.
///
/// It is called on the tunnel's own thread, one message at a time, and may call every function except culvert_free,
/// culvert_stop and culvert_wait. The tunnel does not wait for it: if messages arrive faster than it returns, some are
/// dropped, and the next message contains their number. It is not called after culvert_free has returned.
typedef void (*culvert_log_function)(culvert_log_level level, const char *message, void *CULVERT_NULLABLE context);

/// The options of a tunnel.
typedef struct culvert_options {
    /// sizeof(culvert_options), as culvert_options_init sets it.
    size_t size;
    /// The descriptor for IP packets. It still belongs to the caller, who may close it at any time: the tunnel uses a
    /// duplicate. The open file becomes non-blocking.
    int32_t descriptor;
    /// The format of packets on it.
    culvert_format format;
    /// The largest IP packet in bytes, 576 to 65535; 0: that of the configuration or the interface, otherwise 1420.
    uint32_t mtu;
    /// The number of threads that move packets, 1 or 2; 0: chosen by the number of processors.
    uint32_t threads;
    /// The memory limit in bytes, without the program itself; 0: 8 MiB.
    uint64_t memory;
    /// The largest number of configured peers; 0: 240.
    uint32_t peers;
    /// The mark of the datagrams (SO_MARK on Linux, which needs CAP_NET_ADMIN), instead of the configuration's; 0: that of
    /// the configuration. The mark of a later configuration replaces it, until a wg-quick file without a mark is applied.
    uint32_t mark;
    /// The time limit for resolving endpoint names, in milliseconds; 0: 10,000.
    uint32_t lookup_timeout;
    /// The least severe level that is logged.
    culvert_log_level log_level;
    /// Receives messages; null for none.
    culvert_log_function CULVERT_NULLABLE log;
    /// The context for the log function.
    void *CULVERT_NULLABLE log_context;
} culvert_options;

/// The reason for the end of a tunnel.
typedef int32_t culvert_end;
enum {
    /// It has not.
    CULVERT_RUNNING = 0,
    /// culvert_stop.
    CULVERT_END_REQUESTED = 1,
    /// The interface was deleted, or the other end of the socket pair closed.
    CULVERT_END_DESCRIPTOR = 2,
    /// Something failed for good; the log says what.
    CULVERT_END_FAILED = 3,
};

/// The state of a tunnel at one moment.
typedef struct culvert_status {
    /// sizeof(culvert_status), as culvert_status_init sets it.
    size_t size;
    /// Whether it runs, or why it ended.
    culvert_end end;
    /// The UDP port; 0 while there is none.
    uint16_t port;
    /// How many peers are configured.
    uint32_t peer_count;
    /// How many of them there is a session with.
    uint32_t session_count;
    /// The newest handshake, in seconds since 1970; 0: none yet.
    int64_t latest_handshake;
    /// Bytes of authentic datagrams received from all peers, handshakes included.
    uint64_t received_bytes;
    /// Bytes of datagrams sent to all peers, handshakes included.
    uint64_t sent_bytes;
    /// The number of dropped packets, over all causes.
    uint64_t dropped_packets;
} culvert_status;

/// The state of a peer.
typedef struct culvert_peer {
    /// Its public key.
    uint8_t public_key[32];
    /// Its last or configured address as text: "192.0.2.1:51820", "[2001:db8::1]:51820"; empty if unknown.
    char endpoint[72];
    /// The newest handshake, in seconds since 1970; 0: none yet.
    int64_t latest_handshake;
    /// Bytes of authentic datagrams received, handshakes included.
    uint64_t received_bytes;
    /// Bytes of datagrams sent, handshakes included.
    uint64_t sent_bytes;
    /// Whether there is a session.
    bool has_session;
} culvert_peer;

/// The version of the library, as "1.2.3".
const char *culvert_version(void);

/// Fills in the size and the defaults; the descriptor is -1.
void culvert_options_init(culvert_options *options);

/// Fills in the size; everything else is zero.
void culvert_status_init(culvert_status *status);

/// Starts a tunnel that runs in the background.
/// @param options The options, which are copied.
/// @param configuration A wg-quick file (it contains "[Interface]") or the text after "set=1" in the configuration protocol
///   of WireGuard's userspace implementations; UTF-8, ended by a zero byte. The keys, port, mark, peers and MTU of a
///   wg-quick file are used; the caller sets addresses, routes and DNS and runs its commands. Endpoint names are resolved.
/// @param tunnel The tunnel if the result is CULVERT_OK; otherwise null.
/// @param error The error; may be null.
culvert_result culvert_start(const culvert_options *options, const char *configuration,
                             culvert_tunnel *CULVERT_NULLABLE *CULVERT_NULLABLE tunnel,
                             culvert_error *CULVERT_NULLABLE error);

/// Starts a tunnel and waits without limit until it has ended.
/// @param tunnel Set before the wait begins, so that another thread can stop it; the caller frees it after this has returned.
///   May be null: then only its descriptor can end it, and nothing needs to be freed.
/// @param end The reason for the end; may be null.
culvert_result culvert_run(const culvert_options *options, const char *configuration,
                           culvert_tunnel *CULVERT_NULLABLE *CULVERT_NULLABLE tunnel,
                           culvert_end *CULVERT_NULLABLE end, culvert_error *CULVERT_NULLABLE error);

/// Ends a tunnel. When it returns, its threads have ended, its sockets and its duplicate of the descriptor are closed and its
/// keys wiped. It may be called repeatedly, and by several threads at the same time.
culvert_result culvert_stop(culvert_tunnel *tunnel);

/// Waits until a tunnel has ended.
/// @param timeout In milliseconds; negative: without limit.
/// @param end The reason for the end; may be null.
/// @return CULVERT_TIMED_OUT if it still runs.
culvert_result culvert_wait(culvert_tunnel *tunnel, int64_t timeout, culvert_end *CULVERT_NULLABLE end);

/// Ends a tunnel, if it still runs, and frees it. Null is allowed. No other call on it may be in progress or follow.
culvert_result culvert_free(culvert_tunnel *CULVERT_NULLABLE tunnel);

/// Returns the state of the tunnel, even after it has ended; then there are no peers.
/// @param status A structure with its size set.
culvert_result culvert_get_status(culvert_tunnel *tunnel, culvert_status *status);

/// Returns the state of each peer.
/// @param peers Room for `capacity` peers; may be null if `capacity` is 0.
/// @param count The number of peers, even if it exceeds the capacity.
culvert_result culvert_get_peers(culvert_tunnel *tunnel, culvert_peer *CULVERT_NULLABLE peers, size_t capacity,
                                 size_t *count);

/// Applies another configuration to a running tunnel, as a whole or not at all. Peers in both configurations keep their sessions.
/// @param configuration As for culvert_start; in the form of the protocol, only the given values change.
culvert_result culvert_configure(culvert_tunnel *tunnel, const char *configuration,
                                 culvert_error *CULVERT_NULLABLE error);

/// Binds new sockets. Call it when the network has changed. Sessions continue.
culvert_result culvert_rebind(culvert_tunnel *tunnel, culvert_error *CULVERT_NULLABLE error);

/// Opens the packets of a descriptor, without a tunnel: IP packets are read and written unchanged, one in each call, by any
/// number of threads. Reads remove and writes add the header that precedes packets on the descriptor, and superframes of the
/// system's offloads are split.
/// @param descriptor As in culvert_options: it still belongs to the caller, becomes non-blocking, and a duplicate is used.
/// @param format The format of packets on it.
/// @param mtu The largest IP packet in bytes, 576 to 65535; 0: that of the interface, otherwise 1420.
/// @param packets The packet port if the result is CULVERT_OK; otherwise null.
/// @param error The error; may be null, here and below.
culvert_result culvert_packets_open(int32_t descriptor, culvert_format format, uint32_t mtu,
                                    culvert_packets *CULVERT_NULLABLE *CULVERT_NULLABLE packets,
                                    culvert_error *CULVERT_NULLABLE error);

/// Reads the next packet, and waits if there is none.
/// @param buffer Receives the packet: 65535 bytes suffice for any, and the MTU for those of the interface.
/// @param capacity The size of the buffer in bytes.
/// @param timeout In milliseconds; negative: without limit; 0: does not wait.
/// @param length The packet's length; with CULVERT_TRUNCATED more than the capacity, and 0 with any other failure.
/// @return CULVERT_TIMED_OUT if no packet arrived, CULVERT_INTERRUPTED, CULVERT_ENDED; CULVERT_TRUNCATED: the rest of the packet
///   is lost.
culvert_result culvert_packets_read(culvert_packets *CULVERT_NULLABLE packets, void *CULVERT_NULLABLE buffer,
                                    size_t capacity, int64_t timeout, size_t *CULVERT_NULLABLE length,
                                    culvert_error *CULVERT_NULLABLE error);

/// Writes a packet. It never waits.
/// @param packet An IP packet of `length` bytes, 1 to 65535.
/// @return CULVERT_REFUSED if the system refused it: nothing else has changed.
culvert_result culvert_packets_write(culvert_packets *CULVERT_NULLABLE packets, const void *CULVERT_NULLABLE packet,
                                     size_t length, culvert_error *CULVERT_NULLABLE error);

/// Makes every present and later culvert_packets_read return CULVERT_INTERRUPTED, until it is called with false. No packet is
/// lost, and writes continue. Do not call it in a signal handler: block the signal before you create threads, and let one of
/// them wait for it (sigwait) and call this function.
culvert_result culvert_packets_interrupt(culvert_packets *CULVERT_NULLABLE packets, bool interrupted);

/// Closes the duplicate of the descriptor. Every present and later call returns CULVERT_ENDED. It may be called repeatedly, on
/// any thread.
culvert_result culvert_packets_close(culvert_packets *CULVERT_NULLABLE packets);

/// Closes the packet port and frees it. Null is allowed. No other call on it may be in progress or follow.
culvert_result culvert_packets_free(culvert_packets *CULVERT_NULLABLE packets);

#ifdef __cplusplus
}
#endif

#if defined(__clang__)
#pragma clang assume_nonnull end
#endif

#endif
