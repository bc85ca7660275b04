// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// The system has no app proxies on tvOS.
#if !os(tvOS)
    public import Foundation
    import NetworkAddresses
    public import NetworkExtension
    public import PacketTunnel
    import Synchronization
    import TunnelIO

    /// Runs a provider as an app proxy. The same provider runs in a `MemoryHost` for tests, with the same starts, stops,
    /// messages, options and failures.
    ///
    /// The principal class of the extension is a subclass. Its `handleNewFlow(_:)` passes the system's flows to the
    /// ``provider``, as values of a type that the app defines, so that a test can pass other ones.
    ///
    /// An app proxy has no packets: the provider's packet flow never has any. Of its settings, the system gets the remote
    /// address, name servers and proxies.
    open class AppProxyHost<Provider: PacketTunnelProvider>: NEAppProxyProvider, @unchecked Sendable {
        // The mutex guards this state. The rest belongs to the system and is thread safe according to its documentation.
        private let shared = Mutex<NetworkExtensionBridge<Provider>?>(nil)

        /// A host whose proxy is down.
        public override init() { super.init() }

        /// The options of the provider. Read once, before the first start.
        open var options: NetworkExtensionOptions { NetworkExtensionOptions() }

        /// Makes a provider, once for each start.
        open func makeProvider() -> Provider { Provider() }

        /// The provider that is starting or up, or `nil` if there is none.
        public final var provider: Provider? { bridge.runner.provider }

        /// The bridge to the provider's runner.
        public final var bridge: NetworkExtensionBridge<Provider> {
            if let bridge = shared.withLock({ $0 }) { return bridge }
            let made = NetworkExtensionBridge<Provider>(
                self, options, AppProxyPlatform(self), interfaceName: { nil },
                end: { ($0 as? NEAppProxyProvider)?.cancelProxyWithError($1) }
            ) { [weak self] in self?.makeProvider() ?? Provider() }
            return shared.withLock { shared in
                let bridge = shared ?? made
                shared = bridge
                return bridge
            }
        }

        /// Starts the proxy.
        open override func startProxy(
            options: [String: Any]?, completionHandler: @escaping @Sendable ((any Error)?) -> Void
        ) {
            bridge.startTunnel(
                options: options?.compactMapValues { $0 as? NSObject }, completionHandler: completionHandler)
        }

        /// Stops the proxy.
        open override func stopProxy(
            with reason: NEProviderStopReason, completionHandler: @escaping @Sendable () -> Void
        ) {
            bridge.stopTunnel(with: reason, completionHandler: completionHandler)
        }

        /// Passes on a message of the app.
        open override func handleAppMessage(
            _ messageData: Data, completionHandler: (@Sendable (Data?) -> Void)?
        ) {
            bridge.handleAppMessage(messageData, completionHandler: completionHandler)
        }

        /// Notifies the provider that the device is about to sleep.
        open override func sleep(completionHandler: @escaping @Sendable () -> Void) {
            bridge.sleep(completionHandler: completionHandler)
        }

        /// Notifies the provider that the device woke up.
        open override func wake() { bridge.wake() }
    }

    /// Applies the settings of an app proxy, which has no interface and blocks no traffic.
    private final class AppProxyPlatform: TunnelPlatform, @unchecked Sendable {
        // The system's documentation states: "Instances of this class are thread safe". The provider outlives its runs.
        private weak let provider: NEAppProxyProvider?
        private let tun = Mutex<MemoryTun?>(nil)

        init(_ provider: NEAppProxyProvider) { self.provider = provider }

        /// `nil`: the system keeps the proxy's own sockets out of the proxy.
        var socketMark: UInt32? { nil }

        /// Empty, because they are not known.
        func outsideNameServers() async -> [IPAddress] { [] }

        func prepare(_ policy: LeakPolicy) async throws(TunnelError) { try check(policy) }

        private func check(_ policy: LeakPolicy) throws(TunnelError) {
            guard !policy.leavesDecisionToRoutes else { return }
            throw TunnelError(
                .configurationInvalid, "an app proxy cannot have the leak policy '\(policy.rawValue)'",
                fix: "use '\(LeakPolicy.routeBased.rawValue)'")
        }

        func apply(_ settings: TunnelSettings) async throws(TunnelError) -> any TunDevice {
            try check(settings.leakPolicy)
            guard let provider else { throw TunnelError(.hostFailed, "the system has released the proxy") }
            let complete = settings.makeNetworkExtensionSettings()
            let reduced = NETunnelNetworkSettings(tunnelRemoteAddress: complete.tunnelRemoteAddress)
            (reduced.dnsSettings, reduced.proxySettings) = (complete.dnsSettings, complete.proxySettings)
            try await provider.apply(reduced)
            if Task.isCancelled { throw NETunnelProvider.cancelled }
            do throws(TunnelIOError) {
                if let device = tun.withLock({ $0 }) { return device }
                let device = try MemoryTun(name: "proxy")
                tun.withLock { $0 = device }
                return device
            } catch {
                throw TunnelError(.hostFailed, error.description)
            }
        }

        func tearDown(leavingBlocked: Bool) async {
            let device = tun.withLock { tun in
                defer { tun = nil }
                return tun
            }
            device?.close()
        }
    }
#endif
