// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import CCulvert
import NetworkAddresses
import TunnelIO
import WireGuardCore
import WireGuardDevice

/// The object of a `culvert_tunnel`.
final class Tunnel: Sendable {
    private let device: WireGuardDevice
    private let pump: LogPump?
    private let lookupTimeout: Duration
    private let mark: UInt32?
    private let end = Monitor<WireGuardDevice.CloseReason?>(nil)

    init(_ options: Options, configuration text: String) throws(Failure) {
        lookupTimeout = options.lookupTimeout
        mark = options.mark
        let configuration = try ConfigurationText(text, mark: mark, lookingUpWithin: lookupTimeout)
        guard case .set = configuration.update.privateKey else {
            throw Failure(CULVERT_INVALID_CONFIGURATION, "the configuration has no private key: add one")
        }
        let tun = try options.descriptor.open(configuredMTU: configuration.mtu)
        do throws(TunnelIOError) {
            pump = try options.sink.map { (sink) throws(TunnelIOError) in
                try LogPump(sink, level: options.logLevel)
            }
        } catch {
            tun.close()
            throw Failure(error)
        }
        var settings = WireGuardDevice.Options(budget: options.budget)
        settings.layout = options.layout
        if let pump {
            settings.log = { [pump] level, message in
                pump.log(culvert_log_level(level == .error ? CULVERT_LOG_ERROR : CULVERT_LOG_VERBOSE), message)
            }
        }
        do throws(WireGuardDeviceError) {
            device = try WireGuardDevice(tun: tun, network: SystemDatagramNetwork(), options: settings)
        } catch {
            tun.close()
            pump?.close()
            throw Failure(error)
        }
        do throws(WireGuardDeviceError) {
            var update = configuration.update
            if let mark { update.fwMark = mark }
            try device.apply(update)
            try device.start()
        } catch {
            // A descriptor that is shut down immediately ends the tunnel during its start, like any other end.
            guard error.code == .closed, device.closeReason == .interfaceRemoved else {
                device.close()
                pump?.close()
                throw Failure(error)
            }
        }
        device.onClose { [end] reason in
            end.update {
                $0 = reason
                return true
            }
        }
    }

    /// Whether the calling thread is inside its own log function.
    var isInCallback: Bool { pump?.isOnThread ?? false }

    func stop() { device.close() }

    /// Ends it and everything that could still call the caller.
    func finish() {
        device.close()
        pump?.close()
    }

    /// Waits for the end. Returns its reason, or `nil` if the tunnel runs at the deadline on `LaneClock`.
    func wait(until deadline: Int64) -> culvert_end? {
        end.wait(until: deadline) { $0.map(Self.meaning) }
    }

    private static func meaning(_ reason: WireGuardDevice.CloseReason) -> culvert_end {
        switch reason {
        case .requested: culvert_end(CULVERT_END_REQUESTED)
        case .interfaceRemoved: culvert_end(CULVERT_END_DESCRIPTOR)
        case .managementSocketRemoved, .failed: culvert_end(CULVERT_END_FAILED)
        }
    }

    func configure(_ text: String) throws(Failure) {
        let configuration = try ConfigurationText(text, mark: mark, lookingUpWithin: lookupTimeout)
        do throws(WireGuardDeviceError) { try device.apply(configuration.update) } catch { throw Failure(error) }
    }

    func rebind() throws(Failure) {
        do throws(WireGuardDeviceError) { try device.rebind() } catch { throw Failure(error) }
    }

    func fill(_ status: inout culvert_status) {
        let peers = device.peers
        status.end = device.closeReason.map(Self.meaning) ?? culvert_end(CULVERT_RUNNING)
        status.port = device.listenPort ?? 0
        status.peer_count = UInt32(clamping: peers.count)
        status.session_count = UInt32(clamping: peers.count { $0.hasSession })
        status.latest_handshake = peers.compactMap(\.lastHandshake).map { Int64(clamping: $0.seconds) }.max() ?? 0
        status.received_bytes = peers.reduce(0) { $0 &+ $1.receivedBytes }
        status.sent_bytes = peers.reduce(0) { $0 &+ $1.sentBytes }
        status.dropped_packets = device.statistics.drops.total
    }

    var peers: [culvert_peer] {
        device.peers.map { snapshot in
            var peer = culvert_peer()
            unsafe withUnsafeMutableBytes(of: &peer.public_key) { unsafe $0.copyBytes(from: snapshot.publicKey.bytes) }
            if let endpoint = snapshot.endpoint {
                unsafe withUnsafeMutableBytes(of: &peer.endpoint) {
                    unsafe FixedText.write(endpoint.description, to: $0)
                }
            }
            peer.latest_handshake = snapshot.lastHandshake.map { Int64(clamping: $0.seconds) } ?? 0
            peer.received_bytes = snapshot.receivedBytes
            peer.sent_bytes = snapshot.sentBytes
            peer.has_session = snapshot.hasSession
            return peer
        }
    }
}
