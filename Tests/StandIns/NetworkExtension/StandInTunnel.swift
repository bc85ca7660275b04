// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Network
import Synchronization

/// The system's side of one provider: its settings, its flow, and its reports to the system.
public final class StandInTunnel: @unchecked Sendable {
    /// The treatment of settings.
    public enum Behaviour: Sendable {
        /// They are applied.
        case succeed
        /// The completion handler gets this error.
        case fail(any Error)
        /// The completion handler is called by ``StandInTunnel/release()``, and not before.
        case withhold
    }

    private let lock = NSLock()
    private let system = DispatchQueue(label: "tunnel")
    private var behaviour = Behaviour.succeed
    private var withheld: [@Sendable () -> Void] = []
    private var inForce: NETunnelNetworkSettings?
    private var all: [NETunnelNetworkSettings] = []
    private var configuration: NEVPNProtocol = NETunnelProviderProtocol()
    private var reasserting = false
    private var reassertingHistory: [Bool] = []
    private var cancelHandler: (@Sendable ((any Error)?) -> Void)?
    private var cancelErrors: [(any Error)?] = []
    private var reassertingHandler: (@Sendable (Bool) -> Void)?
    private var changeHandler: (@Sendable () -> Void)?
    /// The packets.
    public let flow = NEPacketTunnelFlow()

    // MARK: - The test's settings and view

    /// Sets what becomes of settings from now on.
    public func setBehaviour(_ behaviour: Behaviour) { lock.withLock { self.behaviour = behaviour } }

    /// Applies settings that were withheld.
    public func release() {
        let calls = lock.withLock {
            defer { withheld = [] }
            return withheld
        }
        calls.forEach { system.async(execute: $0) }
    }

    /// How many settings are withheld.
    public var withheldCount: Int { lock.withLock { withheld.count } }

    /// The settings in effect.
    public var settings: NEPacketTunnelNetworkSettings? { lock.withLock { inForce as? NEPacketTunnelNetworkSettings } }

    /// The number of settings that were applied.
    public var settingsCount: Int { lock.withLock { all.count } }

    /// The configuration that the provider sees.
    public var protocolConfiguration: NEVPNProtocol {
        get { lock.withLock { configuration } }
        set { lock.withLock { configuration = newValue } }
    }

    /// Whether the provider says that it is connecting again.
    public var isReasserting: Bool { lock.withLock { reasserting } }

    /// The reported values, oldest first.
    public var reassertingChanges: [Bool] { lock.withLock { reassertingHistory } }

    /// The errors that the provider gave up with.
    public var cancellations: [(any Error)?] { lock.withLock { cancelErrors } }

    /// Sets the handler for the provider's reports of reasserting and of its end.
    public func setChangeHandler(_ handler: (@Sendable () -> Void)?) { lock.withLock { changeHandler = handler } }

    /// Removes the settings, as the system does once a tunnel is down.
    public func clearSettings() { lock.withLock { inForce = nil } }

    func setHandlers(
        cancel: @escaping @Sendable ((any Error)?) -> Void, reasserting: @escaping @Sendable (Bool) -> Void
    ) {
        lock.withLock { (cancelHandler, reassertingHandler) = (cancel, reasserting) }
    }

    var virtualInterface: NWInterface? {
        lock.withLock { inForce == nil ? nil : NWInterface(standIn: "utun7", type: .other, index: 17) }
    }

    // MARK: - Calls of the provider

    func apply(_ settings: NETunnelNetworkSettings?, _ completion: (@Sendable ((any Error)?) -> Void)?) {
        let handed = Handed(value: settings)
        lock.withLock {
            switch behaviour {
            case .succeed: system.async { self.bring(handed.value, completion) }
            case .fail(let error): system.async { completion?(error) }
            case .withhold: withheld.append { self.bring(handed.value, completion) }
            }
        }
    }

    private func bring(_ settings: NETunnelNetworkSettings?, _ completion: (@Sendable ((any Error)?) -> Void)?) {
        if let problem = Self.problem(settings) {
            completion?(problem)
            return
        }
        lock.withLock {
            inForce = settings
            if let settings { all.append(settings) }
        }
        completion?(nil)
    }

    /// The settings that the system refuses.
    private static func problem(_ settings: NETunnelNetworkSettings?) -> (any Error)? {
        guard let settings else { return nil }
        let invalid = NETunnelProviderError(.networkSettingsInvalid)
        guard isAddress(settings.tunnelRemoteAddress) else { return invalid }
        // An app proxy has no addresses.
        guard let settings = settings as? NEPacketTunnelNetworkSettings else {
            return (settings.dnsSettings?.servers ?? []).allSatisfy(isAddress) ? nil : invalid
        }
        let v4 = settings.ipv4Settings
        if let v4, v4.addresses.isEmpty || v4.addresses.count != v4.subnetMasks.count { return invalid }
        let v6 = settings.ipv6Settings
        if let v6, v6.addresses.isEmpty || v6.addresses.count != v6.networkPrefixLengths.count { return invalid }
        let texts = (v4?.addresses ?? []) + (v6?.addresses ?? []) + (settings.dnsSettings?.servers ?? [])
        return texts.allSatisfy(isAddress) ? nil : invalid
    }

    private static func isAddress(_ text: String) -> Bool {
        var bytes = [UInt8](repeating: 0, count: 16)
        return inet_pton(AF_INET, text, &bytes) == 1 || inet_pton(AF_INET6, text, &bytes) == 1
    }

    func setReasserting(_ isOn: Bool) {
        let handler = lock.withLock { () -> (@Sendable (Bool) -> Void)? in
            reasserting = isOn
            reassertingHistory.append(isOn)
            return reassertingHandler
        }
        handler?(isOn)
        lock.withLock { changeHandler }?()
    }

    func cancel(_ error: (any Error)?) {
        let handler = lock.withLock {
            cancelErrors.append(error)
            return cancelHandler
        }
        let handed = Handed(value: error)
        system.async { handler?(handed.value) }
        lock.withLock { changeHandler }?()
    }
}
