// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
public import PacketTunnel
import WireGuardCore
public import WireGuardTunnel

#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

/// A WireGuard tunnel whose gateway assigns addresses, servers and settings to its devices.
///
/// A start enrols the device if there is only an invitation, and requests the current grant. If the gateway is
/// unreachable, the tunnel uses the last grant until it expires. The tunnel tries the servers in turn until one
/// answers, and renews the grant in time. When no data arrives, it moves to the next server while it stays up; after
/// the last server, it asks the gateway again. All of this works in an extension that was started on demand, while the
/// app does not run.
///
/// The key, the credential and the grant are stored as one secret of the profile (``DeviceEnrolment``).
public actor EnrolledTunnelProvider: PacketTunnelProvider {
    private let transport: (any ProvisioningTransport)?
    private let environment: WireGuardEnvironment
    package let inner: WireGuardTunnelProvider
    private let now: @Sendable () -> Date
    private let keys = HeldKeys()
    private var run: Run?
    private var move: Task<Void, Never>?
    private var renewal: Task<Void, Never>?

    private struct Run {
        let configuration: EnrolledTunnelConfiguration
        let context: ProviderContext
        var enrolment: DeviceEnrolment
        var places: [GrantedPlace] = []
        /// The index of the endpoint in use.
        var place = 0
        var path: NetworkPath
        /// Whether the start has succeeded.
        var isUp = false
        /// The number of endpoints that were lost since the last endpoint delivered packets, or since the last request
        /// to the gateway.
        var losses = 0
        /// The number of requests to the gateway since an endpoint last delivered packets.
        var inquiries = 0

        var grant: EnrolmentGrant? { enrolment.grant }
    }

    /// Creates a provider that cannot start, because it has no transport. Hosts must use
    /// ``init(transport:environment:)``.
    public init() { self.init(transport: nil, environment: WireGuardEnvironment(), now: { Date() }) }

    /// Creates a provider that sends its requests with `transport`.
    public init(transport: any ProvisioningTransport, environment: WireGuardEnvironment = WireGuardEnvironment()) {
        self.init(transport: transport, environment: environment, now: { Date() })
    }

    /// - Parameter now: Returns the current time, by which the age of the stored grant is computed.
    package init(
        transport: (any ProvisioningTransport)?, environment: WireGuardEnvironment, now: @escaping @Sendable () -> Date
    ) {
        self.transport = transport
        self.environment = environment
        self.now = now
        inner = WireGuardTunnelProvider(environment: environment)
        router.on(EnrolmentStatusRequest.self) { [weak self] _ in
            guard let status = await self?.status else { throw TunnelError(.notRunning, "the tunnel has ended") }
            return status
        }
    }

    // MARK: - Start and stop

    /// Enrols if necessary, and starts the tunnel of the grant.
    /// - Throws: `.configurationInvalid`; `.networkUnavailable`; `.secretUnavailable` without an enrolment or an
    ///   invitation; `.authenticationFailed` if the gateway refuses the device; `.serverUnreachable` if the gateway is
    ///   unreachable and there is no usable stored grant, or if no server answers; and the errors of
    ///   `WireGuardTunnelProvider.start(_:context:)`.
    public func start(
        _ configuration: EnrolledTunnelConfiguration, context: ProviderContext
    ) async throws(TunnelError) {
        let problems = configuration.validate()
        guard problems.isEmpty else {
            throw TunnelError(
                .configurationInvalid, "the tunnel's configuration cannot be used",
                fix: "correct the fields that are listed", problems: problems)
        }
        guard !context.path.isCutOff else {
            throw TunnelError(.networkUnavailable, "there is no network", fix: "no network is available")
        }
        let secret = try await context.secret(configuration.secretName)
        let enrolment = try await keeper(configuration, context, path: context.path, isUp: false).read(
            secret, name: configuration.deviceName, platform: configuration.platform)
        let keeper = try await keeper(configuration, context, path: context.path, isUp: false, basis: enrolment)
        run = Run(configuration: configuration, context: context, enrolment: enrolment, path: context.path)
        do throws(TunnelError) {
            try adopt(try await current(enrolment, keeper))
            try await bringUp()
        } catch {
            run = nil
            keys.clear()
            throw error
        }
        scheduleRenewal()
    }

    /// Returns the enrolment with the current grant, or with the last grant if the gateway is unreachable.
    private func current(_ enrolment: DeviceEnrolment, _ keeper: EnrolmentKeeper) async throws(TunnelError)
        -> DeviceEnrolment
    {
        do throws(ProvisioningError) {
            return try await keeper.refreshed(enrolment)
        } catch {
            guard error.isOutage, enrolment.hasUsableGrant(at: now()) else { throw error.tunnelError }
            keeper.logger.warning("\(error.tunnelError.message): using the last grant of the gateway")
            return enrolment
        }
    }

    /// Starts the tunnel at one endpoint after another, until a start succeeds.
    private func bringUp() async throws(TunnelError) {
        guard let run else { throw TunnelError(.stopped, "the start was cancelled") }
        let host = InnerHost(
            outer: run.context, keys: keys, isLost: { [weak self] error in Task { await self?.lost(error) } },
            isProven: { [weak self] in Task { await self?.proven() } })
        for place in run.places.indices {
            self.run?.place = place
            do throws(TunnelError) {
                guard let tunnel else { throw TunnelError(.stopped, "the start was cancelled") }
                try await inner.start(tunnel, context: run.context.passing(through: host))
                self.run?.isUp = true
                return
            } catch {
                let mayGoOn = [.serverUnreachable, .nameResolutionFailed].contains(error.code)
                guard mayGoOn, place + 1 < run.places.count else { throw error }
                run.context.logger.warning("\(error.message): trying the next server")
            }
        }
    }

    /// Ends the tunnel.
    public func stop(_ reason: StopReason) async {
        move?.cancel()
        renewal?.cancel()
        run = nil
        await inner.stop(reason)
        keys.clear()
    }

    /// Passes the call to `WireGuardTunnelProvider.sleep()`.
    public func sleep() async { await inner.sleep() }

    /// Passes the call to `WireGuardTunnelProvider.wake()`.
    public func wake() async { await inner.wake() }

    /// Stores the path, and passes the call to `WireGuardTunnelProvider.pathChanged(_:)`.
    public func pathChanged(_ path: NetworkPath) async {
        run?.path = path
        await inner.pathChanged(path)
    }

    /// The message router of the inner `WireGuardTunnelProvider`.
    public nonisolated var router: MessageRouter { inner.router }

    // MARK: - Messages

    /// The current grant, or `nil` before the first.
    public var status: EnrolmentStatusRequest.Reply? {
        guard let run, let grant = run.grant, run.places.indices.contains(run.place) else { return nil }
        let age = run.enrolment.grantedAt.map { now().timeIntervalSince($0) } ?? 0
        let place = run.places[run.place]
        return EnrolmentStatusRequest.Reply(
            deviceID: grant.device.id, deviceName: grant.device.name, user: grant.device.user,
            publicKey: grant.device.publicKey.base64, addresses: grant.addresses,
            routes: run.configuration.routes ?? grant.routes, dns: grant.dns, searchDomains: grant.searchDomains,
            mtu: grant.mtu, serverKey: place.server.base64, endpoint: place.endpoint.description,
            keepaliveSeconds: grant.keepaliveSeconds,
            expiresInSeconds: grant.device.expiresInSeconds.map { max(0, Double($0) - age) }, givenSecondsAgo: age)
    }

    // MARK: - Grants

    /// Makes the keeper of the enrolment, with the gateway's current addresses.
    private func keeper(
        _ configuration: EnrolledTunnelConfiguration, _ context: ProviderContext, path: NetworkPath, isUp: Bool,
        basis: DeviceEnrolment? = nil
    ) async throws(TunnelError) -> EnrolmentKeeper {
        guard let transport else {
            throw TunnelError(
                .configurationInvalid, "the provider has no transport",
                fix: "make it with EnrolledTunnelProvider(transport:)")
        }
        let servers = await environment.located(
            configuration.gateways, isUp: isUp, policy: configuration.leakPolicy, path: path, context)
        // If a grant can be used, wait for at most 10 seconds.
        let hasMore = isUp || basis?.hasUsableGrant(at: now()) == true
        let client = EnrolmentClient(
            servers: servers, transport: transport,
            deadline: .seconds(hasMore ? min(configuration.gatewayTimeout, 10) : configuration.gatewayTimeout),
            clock: context.clock, logger: context.logger, socketMark: context.socketMark, random: environment.random)
        let name = configuration.secretName
        return EnrolmentKeeper(
            client: client, logger: context.logger, now: now, random: environment.random
        ) { (secret) throws(TunnelError) in
            // Do not overwrite a change by another program, which may have rotated the key or replaced the device.
            if let basis {
                guard let kept = try? DeviceEnrolment(await context.secret(name)), kept.hasKeys(of: basis) else {
                    throw TunnelError(.storage, "another program has changed or removed the stored enrolment")
                }
            }
            try await context.keepSecret(secret, name)
        }
    }

    /// Uses an enrolment from now on: its keys and endpoints. Keeps the current endpoint if the grant still contains
    /// it.
    private func adopt(_ enrolment: DeviceEnrolment) throws(TunnelError) {
        guard let grant = enrolment.grant, run != nil else { throw TunnelError(.stopped, "the start was cancelled") }
        let present = run.flatMap { $0.places.indices.contains($0.place) ? $0.places[$0.place] : nil }
        run?.enrolment = enrolment
        run?.places = grant.places
        run?.place = present.flatMap { grant.places.firstIndex(of: $0) } ?? 0
        keys.hold(enrolment.privateKey, grant.presharedKey)
    }

    /// The configuration of the tunnel to the selected endpoint; `nil` if there is none.
    private var tunnel: WireGuardTunnelConfiguration? {
        guard let run, let grant = run.grant, run.places.indices.contains(run.place) else { return nil }
        return run.configuration.tunnel(grant, to: run.places[run.place], isOnly: run.places.count == 1)
    }

    /// Requests the grant with the stored enrolment, whose key another program may have rotated.
    private func ask(renewing: Bool) async throws(ProvisioningError) -> DeviceEnrolment {
        guard let run else { throw .cancelled }
        var basis = run.enrolment
        if let kept = try? DeviceEnrolment(await run.context.secret(run.configuration.secretName)) { basis = kept }
        let keeper: EnrolmentKeeper
        do throws(TunnelError) {
            keeper = try await self.keeper(
                run.configuration, run.context, path: run.path, isUp: true, basis: basis)
        } catch {
            throw .cancelled
        }
        return try await keeper.refreshed(basis, renewing: renewing)
    }

    // MARK: - Renewal

    private func scheduleRenewal() {
        renewal?.cancel()
        renewal = Task { await self.renewInTime() }
    }

    private func renewInTime() async {
        var failures = 0
        while let run, !Task.isCancelled {
            var generator = environment.random()
            let due =
                failures == 0 ? run.enrolment.timeToRenewal(at: now()) : .seconds(min(60 << min(failures, 6), 3600))
            // Do not renew early. Add jitter, so that many devices do not renew at the same time.
            let pause = max(due, .seconds(1))
            do {
                try await run.context.clock.sleep(for: pause + pause * Double.random(in: 0..<0.05, using: &generator))
            } catch { return }
            do throws(ProvisioningError) {
                try await follow(try await ask(renewing: true))
                failures = 0
            } catch {
                failures += 1
                guard self.run != nil, !Task.isCancelled else { return }
                if error.tunnelError.code == .authenticationFailed { return run.context.cancel(error.tunnelError) }
                run.context.logger.warning("not renewed: \(error.tunnelError.message)")
            }
        }
    }

    /// Applies a changed grant to the tunnel.
    private func follow(_ enrolment: DeviceEnrolment) async throws(ProvisioningError) {
        guard let run else { throw .cancelled }
        let (before, key) = (tunnel, run.enrolment.privateKey)
        let presharedKey = run.grant?.presharedKey
        do throws(TunnelError) {
            try adopt(enrolment)
            guard let after = tunnel else { return }
            let isSame = after == before && key == enrolment.privateKey && presharedKey == enrolment.grant?.presharedKey
            guard !isSame else { return run.context.logger.info("renewed") }
            run.context.logger.notice("the gateway has changed the settings: applying them")
            try await inner.reconfigure(after)
        } catch {
            throw .busy("cannot apply the gateway's grant to the tunnel: \(error.message)")
        }
    }

    // MARK: - Failover

    /// Called when the tunnel carries packets.
    private func proven() {
        run?.losses = 0
        run?.inquiries = 0
    }

    /// Called when no data arrives.
    private func lost(_ error: TunnelError) {
        guard run != nil else { return }
        move?.cancel()
        move = Task { await self.moveOn(error) }
    }

    private func moveOn(_ lost: TunnelError) async {
        run?.context.setReasserting(true)
        var pause = 0
        while let run, !Task.isCancelled {
            self.run?.losses += 1
            do throws(TunnelError) {
                if run.losses + 1 >= run.places.count {
                    // All endpoints were tried.
                    guard run.inquiries < run.configuration.connectivity.endWhenDead.inquiryLimit else {
                        return run.context.cancel(lost)
                    }
                    try await inquire(lost)
                } else {
                    self.run?.place = (run.place + 1) % run.places.count
                }
                guard let tunnel, self.run != nil else { return }
                let place = tunnel.peers.first?.endpoint?.description ?? "no place"
                run.context.logger.warning("\(lost.message): moving to \(place)")
                return try await inner.reconfigure(tunnel)
            } catch {
                guard self.run != nil, error.code != .stopped else { return }
                if error.code == .authenticationFailed { return run.context.cancel(error) }
                run.context.logger.warning("\(error)")
            }
            pause = min(pause + 1, 6)
            do { try await run.context.clock.sleep(for: .seconds(5 * pause)) } catch { return }
        }
    }

    /// Requests the current servers from the gateway and selects the endpoint after the current one. If the gateway is
    /// unreachable, selects the next known endpoint.
    private func inquire(_ lost: TunnelError) async throws(TunnelError) {
        guard let run else { return }
        self.run?.losses = 0
        self.run?.inquiries += 1
        do throws(ProvisioningError) {
            let enrolment = try await ask(renewing: false)
            guard self.run != nil else { return }
            do throws(TunnelError) { try adopt(enrolment) } catch { return }
            // `self.run?.place = … self.run …` would read `run` during its own modification, which ends the process.
            guard let renewed = self.run else { return }
            self.run?.place = (renewed.place + 1) % max(renewed.places.count, 1)
        } catch {
            guard error.isOutage else { throw error.tunnelError }
            run.context.logger.warning("\(error.tunnelError.message)")
            self.run?.place = (run.place + 1) % max(run.places.count, 1)
        }
    }
}

extension DeviceEnrolment {
    /// Whether both have the same keys.
    func hasKeys(of other: DeviceEnrolment) -> Bool {
        privateKey == other.privateKey && credential == other.credential && nextKey == other.nextKey
    }
}

extension ConnectivityOptions.EndWhenDead {
    /// The number of requests to the gateway for other servers before the tunnel ends.
    fileprivate var inquiryLimit: Int {
        switch self {
        case .never: .max
        case .afterHealing: 2
        case .atOnce: 1
        }
    }
}
