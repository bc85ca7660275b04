// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import TunnelIO
public import WireGuardCore

/// The addresses of a configuration's peers, with names resolved by the system's resolver.
///
/// ```swift
/// let endpoints = try ResolvedEndpoints(of: configuration)
/// try device.apply(configuration.deviceUpdate(resolve: endpoints.endpoint))
/// ```
///
/// It uses the system's current network, so resolve before all routes lead into the tunnel.
public struct ResolvedEndpoints: Sendable {
    private let found: [EndpointAddress: Endpoint]

    /// Resolves all names concurrently, each on a separate thread, and waits for them.
    /// - Parameters:
    ///   - configuration: The configuration with the peers. Without names in it, there is no lookup.
    ///   - timeout: The time limit for all names together. A lookup that hangs cannot be cancelled, and is abandoned.
    /// - Throws: `.unresolved` for a host that has no address or is not resolved in time; `.io`.
    public init(
        of configuration: TunnelConfiguration, within timeout: Duration = .seconds(10)
    ) throws(WireGuardDeviceError) {
        let names = Set(configuration.peers.compactMap(\.endpoint).filter { $0.endpoint == nil })
        let answers = Monitor<[EndpointAddress: Answer]>([:])
        for name in names {
            do throws(TunnelIOError) {
                _ = try LoopThread(name: "culvert-lookup") {
                    let answer = Self.lookUp(name)
                    answers.update {
                        $0[name] = answer
                        return $0.count == names.count
                    }
                }
            } catch {
                throw WireGuardDeviceError(error)
            }
        }
        let deadline = LaneClock.deadline(after: timeout)
        if !names.isEmpty { _ = answers.wait(until: deadline) { $0.count == names.count ? () : nil } }
        let answered = answers.withValue { $0 }
        var found: [EndpointAddress: Endpoint] = [:]
        for name in names {
            guard let answer = answered[name] else {
                throw WireGuardDeviceError(.unresolved(name, reason: "no answer within \(timeout)"))
            }
            found[name] = try answer.get()
        }
        self.found = found
    }

    /// The endpoint of a peer of the configuration: the host's first address, in the system's order.
    public func endpoint(_ address: EndpointAddress) -> Endpoint? { address.endpoint ?? found[address] }

    private typealias Answer = Result<Endpoint, WireGuardDeviceError>

    private static func lookUp(_ name: EndpointAddress) -> Answer {
        do throws(HostLookupFailure) {
            if let first = try HostLookup.endpoints(of: name.host, port: name.port).first {
                return .success(first)
            }
            return .failure(WireGuardDeviceError(.unresolved(name, reason: "the answer is empty")))
        } catch {
            return .failure(WireGuardDeviceError(.unresolved(name, reason: error.reason)))
        }
    }
}
