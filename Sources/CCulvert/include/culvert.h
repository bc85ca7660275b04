// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A WireGuard tunnel on a descriptor, for programs in C and in all that can call C; and the packets of a descriptor alone, for
/// a protocol of one's own.
///
/// Every function may be called from any thread, but none from a signal handler: they take locks. None keeps a pointer that it is
/// given, but for the log function's context. Structures begin with their own size, so that later versions can add to their end:
/// fill them in with their culvert_..._init function first. Nothing here writes to standard output or error, or installs a signal
/// handler.
///
/// docs/culvert-c.md says how programs are linked. What the libraries hold beside these functions is not interface.
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

/// Packets of a descriptor that is used without a tunnel. Free it with culvert_packets_free.
typedef struct culvert_packets culvert_packets;

/// What came of a call.
typedef int32_t culvert_result;
enum {
    /// It was done.
    CULVERT_OK = 0,
    /// An argument makes no sense: null where that is not allowed, a structure of no known size, a number out of range.
    CULVERT_INVALID_ARGUMENT = 1,
    /// The configuration has errors, or is more than the memory allows for.
    CULVERT_INVALID_CONFIGURATION = 2,
    /// The descriptor is not one that packets can be read from and written to.
    CULVERT_INVALID_DESCRIPTOR = 3,
    /// The name of an endpoint has no address, or none was found in time.
    CULVERT_NO_ADDRESS = 4,
    /// The system refused something: memory, a thread, a port.
    CULVERT_SYSTEM = 5,
    /// The tunnel has ended, or the packets are closed or their interface is gone.
    CULVERT_ENDED = 6,
    /// It did not happen within the time given.
    CULVERT_TIMED_OUT = 7,
    /// This cannot be done inside of the log function.
    CULVERT_IN_CALLBACK = 8,
    /// Somebody interrupted the wait for a packet.
    CULVERT_INTERRUPTED = 9,
    /// The packet does not fit the buffer, and was cut.
    CULVERT_TRUNCATED = 10,
    /// The system did not take the packet: the interface is down, its queue is full, or it is no IP packet.
    CULVERT_REFUSED = 11,
};

/// Why a call failed, for a person.
typedef struct culvert_error {
    /// As the call's result.
    culvert_result result;
    /// The system's error number; 0 where there is none.
    int32_t system_error;
    /// One line of UTF-8 without secrets, cut to what fits, ended by a zero byte.
    char message[504];
} culvert_error;

/// How packets lie on the descriptor.
typedef int32_t culvert_format;
enum {
    /// What the descriptor shows itself to be: a TUN device, a utun socket, or a socket with one packet in each message.
    CULVERT_FORMAT_AUTOMATIC = 0,
    /// A TUN device (Linux) or utun socket (Darwin). Offloads are used where the device has them.
    CULVERT_FORMAT_INTERFACE = 1,
    /// One IP packet in each read and write, with nothing before it: a socket pair that keeps messages apart (SOCK_DGRAM,
    /// SOCK_SEQPACKET). With SOCK_DGRAM, the closing of the other end is noticed only when something is written.
    CULVERT_FORMAT_PACKETS = 2,
};

/// How much a log message matters.
typedef int32_t culvert_log_level;
enum {
    CULVERT_LOG_NONE = 0,
    /// Something does not work.
    CULVERT_LOG_ERROR = 1,
    /// What a developer wants to see.
    CULVERT_LOG_VERBOSE = 2,
};

/// Takes a message: UTF-8 without secrets, ended by a zero byte, valid during the call.
///
/// It is called on a thread of the tunnel's own, one message at a time, and may call everything here but culvert_free,
/// culvert_stop and culvert_wait. A tunnel is not held up by it: of messages that come faster than they are taken, some
/// are dropped, and the next one tells how many. After culvert_free has returned it is not called any more.
typedef void (*culvert_log_function)(culvert_log_level level, const char *message, void *CULVERT_NULLABLE context);

/// How a tunnel is started.
typedef struct culvert_options {
    /// sizeof(culvert_options), as culvert_options_init sets it.
    size_t size;
    /// Where IP packets come from and go to. It stays the caller's, who may close it at any time: the tunnel uses a duplicate.
    /// The open file becomes non-blocking.
    int32_t descriptor;
    /// How packets lie on it.
    culvert_format format;
    /// The most bytes of an IP packet, 576 to 65535; 0: what the configuration or the interface says, or else 1420.
    uint32_t mtu;
    /// How many threads move packets, 1 or 2; 0: as fits the processors.
    uint32_t threads;
    /// The most bytes of memory beyond the program's own; 0: 8 MiB.
    uint64_t memory;
    /// The most peers that can be configured; 0: 240.
    uint32_t peers;
    /// The mark of the datagrams (SO_MARK on Linux, which takes CAP_NET_ADMIN), whatever the configuration says; 0: what that
    /// says. A mark in a configuration that is given later counts, and this one again after a wg-quick file without any.
    uint32_t mark;
    /// How long names of endpoints may take to be looked up, in milliseconds; 0: 10,000.
    uint32_t lookup_timeout;
    /// The least important messages that are logged.
    culvert_log_level log_level;
    /// Takes messages; null: nobody does.
    culvert_log_function CULVERT_NULLABLE log;
    /// What the log function is given.
    void *CULVERT_NULLABLE log_context;
} culvert_options;

/// Why a tunnel ended.
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

/// What a tunnel is at one moment.
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
    /// Packets that were dropped, for whatever cause.
    uint64_t dropped_packets;
} culvert_status;

/// What there is to know of a peer.
typedef struct culvert_peer {
    /// Who it is.
    uint8_t public_key[32];
    /// Where it was last heard from or is configured to be, as text: "192.0.2.1:51820", "[2001:db8::1]:51820"; empty: unknown.
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
/// @param options how. Copied.
/// @param configuration a wg-quick file (it has "[Interface]" in it) or what follows "set=1" in the configuration protocol of
///   WireGuard's userspace implementations; UTF-8, ended by a zero byte. Of a wg-quick file, keys, port, mark, peers and
///   MTU count; addresses, routes, DNS and commands are the caller's business. Names of endpoints are looked up.
/// @param tunnel the tunnel, when the result is CULVERT_OK; otherwise null.
/// @param error why it failed; may be null.
culvert_result culvert_start(const culvert_options *options, const char *configuration,
                             culvert_tunnel *CULVERT_NULLABLE *CULVERT_NULLABLE tunnel,
                             culvert_error *CULVERT_NULLABLE error);

/// Starts a tunnel and waits until it has ended, as long as that takes.
/// @param tunnel set before the wait begins, so that another thread can stop it; the caller frees it after this has returned.
///   May be null: then only its descriptor can end it, and nothing needs to be freed.
/// @param end why it ended; may be null.
culvert_result culvert_run(const culvert_options *options, const char *configuration,
                           culvert_tunnel *CULVERT_NULLABLE *CULVERT_NULLABLE tunnel,
                           culvert_end *CULVERT_NULLABLE end, culvert_error *CULVERT_NULLABLE error);

/// Ends a tunnel. When it returns, its threads are gone, its sockets and its duplicate of the descriptor closed and its keys
/// wiped. Safe to repeat, and from several threads at once.
culvert_result culvert_stop(culvert_tunnel *tunnel);

/// Waits until a tunnel has ended.
/// @param timeout in milliseconds; negative: as long as it takes.
/// @param end why it ended; may be null.
/// @return CULVERT_TIMED_OUT when it still runs.
culvert_result culvert_wait(culvert_tunnel *tunnel, int64_t timeout, culvert_end *CULVERT_NULLABLE end);

/// Ends a tunnel, if it still runs, and frees it. Null is allowed. No other call on it may be under way or follow.
culvert_result culvert_free(culvert_tunnel *CULVERT_NULLABLE tunnel);

/// What the tunnel is right now. Also after it has ended; then there are no peers.
/// @param status with its size set.
culvert_result culvert_get_status(culvert_tunnel *tunnel, culvert_status *status);

/// What there is to know of each peer.
/// @param peers room for `capacity` of them; may be null when `capacity` is 0.
/// @param count how many there are, also when that is more than there was room for.
culvert_result culvert_get_peers(culvert_tunnel *tunnel, culvert_peer *CULVERT_NULLABLE peers, size_t capacity,
                                 size_t *count);

/// Gives a running tunnel another configuration. Sessions with peers that both have go on. All of it takes effect or nothing.
/// @param configuration as for culvert_start; in the form of the protocol, only what it names changes.
culvert_result culvert_configure(culvert_tunnel *tunnel, const char *configuration,
                                 culvert_error *CULVERT_NULLABLE error);

/// Binds new sockets: to be called when the network has changed. Sessions go on.
culvert_result culvert_rebind(culvert_tunnel *tunnel, culvert_error *CULVERT_NULLABLE error);

/// Opens the packets of a descriptor, without a tunnel: IP packets are read and written as they are, one in each call, from
/// any number of threads. Nothing stands in front of a packet, whatever the descriptor has there, and what the system joined by
/// offloads is taken apart.
/// @param descriptor as in culvert_options: it stays the caller's, becomes non-blocking, and a duplicate of it is used.
/// @param format how packets lie on it.
/// @param mtu the most bytes of an IP packet, 576 to 65535; 0: what the interface says, or else 1420.
/// @param packets the packets, when the result is CULVERT_OK; otherwise null.
/// @param error why it failed; may be null, here and below.
culvert_result culvert_packets_open(int32_t descriptor, culvert_format format, uint32_t mtu,
                                    culvert_packets *CULVERT_NULLABLE *CULVERT_NULLABLE packets,
                                    culvert_error *CULVERT_NULLABLE error);

/// Reads the next packet, and waits for it where there is none.
/// @param buffer takes the packet: 65535 bytes hold any, and the interface's MTU holds those that it carries.
/// @param capacity its size in bytes.
/// @param timeout in milliseconds; negative: as long as it takes; 0: not at all.
/// @param length the packet's length; with CULVERT_TRUNCATED more than the capacity, and 0 with any other failure.
/// @return CULVERT_TIMED_OUT where none came, CULVERT_INTERRUPTED, CULVERT_ENDED; CULVERT_TRUNCATED: the rest of the packet is
///   lost.
culvert_result culvert_packets_read(culvert_packets *CULVERT_NULLABLE packets, void *CULVERT_NULLABLE buffer,
                                    size_t capacity, int64_t timeout, size_t *CULVERT_NULLABLE length,
                                    culvert_error *CULVERT_NULLABLE error);

/// Writes a packet. It never waits.
/// @param packet an IP packet of `length` bytes, 1 to 65535.
/// @return CULVERT_REFUSED where the system did not take it: nothing else has changed.
culvert_result culvert_packets_write(culvert_packets *CULVERT_NULLABLE packets, const void *CULVERT_NULLABLE packet,
                                     size_t length, culvert_error *CULVERT_NULLABLE error);

/// Makes every culvert_packets_read return CULVERT_INTERRUPTED, those that wait and those that follow, until this is called with
/// false. No packet is lost by it, and writing goes on. Not from a signal handler: block the signal before threads are made, and let
/// one of them wait for it (sigwait) and call this.
culvert_result culvert_packets_interrupt(culvert_packets *CULVERT_NULLABLE packets, bool interrupted);

/// Closes the duplicate of the descriptor. Every call that is under way or follows ends with CULVERT_ENDED. Safe to repeat, from
/// any thread.
culvert_result culvert_packets_close(culvert_packets *CULVERT_NULLABLE packets);

/// Closes the packets and frees them. Null is allowed. No other call on them may be under way or follow.
culvert_result culvert_packets_free(culvert_packets *CULVERT_NULLABLE packets);

#ifdef __cplusplus
}
#endif

#if defined(__clang__)
#pragma clang assume_nonnull end
#endif

#endif
