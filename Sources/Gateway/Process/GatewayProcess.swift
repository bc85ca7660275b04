// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
package import Logging
import NetworkAddresses
import Provisioning
import ServiceLifecycle
import Synchronization
package import TunnelIO
import TunnelSystem

/// A whole gateway in one process: the folder, the store, WireGuard with network and firewall, and the API.
package final class GatewayProcess: Sendable {
    /// The options of the caller.
    package struct Options: Sendable {
        /// The network of the tunnels; `nil` for an API without a tunnel.
        package var network: (any PeerNetwork)?
        package var datagrams: any DatagramNetwork = SystemDatagramNetwork()
        package var limits = HTTPLimits()
        package var version = ""
        /// The time to wait at the end, in each of three steps, for a database that does not answer.
        package var stopLimit: Duration = .seconds(6)
        /// The user whose processes may use the socket, in addition to root.
        package var socketUser: UInt32

        package init(network: (any PeerNetwork)?, socketUser: UInt32) {
            self.network = network
            self.socketUser = socketUser
        }
    }

    package let service: GatewayService
    package let runtime: GatewayRuntime?
    package let api: GatewayAPI
    let store: GatewayStore
    private let stopLimit: Duration
    private let logger: Logger
    private static let sweep = Duration.seconds(5)

    /// Opens the folder and the store. Nothing is reachable yet.
    package init(
        _ folder: GatewayDirectory, settings: GatewaySettings, _ options: Options, logger: Logger
    ) throws(GatewayProcessError) {
        self.logger = logger
        stopLimit = options.stopLimit
        do {
            try folder.lock()
            let store = try folder.openStore(permitsReadOnly: true)
            let pins = try folder.pins()
            let service = try GatewayService(
                store: store, keys: folder, pins: [pins.active, pins.backup], settings: settings, logger: logger)
            if store.isReadOnly { service.reportReadOnly() }
            // Without a network, there is no tunnel of either kind.
            let loginKeys =
                settings.loginTunnel.isEnabled && options.network != nil ? try folder.loginKeys() : nil
            let tickets = loginKeys == nil ? nil : try folder.loginTickets()
            var runtimeOptions = GatewayRuntime.Options()
            runtimeOptions.stopLimit = options.stopLimit
            if let network = options.network { service.useNetwork(network) }
            let runtime = options.network.map {
                GatewayRuntime(
                    service: service, network: $0, datagrams: options.datagrams, loginKeys: loginKeys,
                    tickets: tickets, options: runtimeOptions, logger: logger)
            }
            if let runtime { service.useTunnel { [weak runtime] in await runtime?.applyChanges() } }
            var parts = GatewayAPI.Parts(
                device: try folder.apiCertificate(), admin: try settings.adminTLS.map { try GatewayCertificate($0) },
                addKey: settings.addKey.isEnabled ? try Self.addKey(folder, settings) : nil,
                invitations: InvitationTemplate(
                    host: settings.host, port: settings.api.port, pins: [pins.active, pins.backup],
                    label: settings.label),
                socketUser: options.socketUser, version: options.version)
            parts.limits = options.limits
            parts.loginTunnel = try loginKeys.map {
                LoginTunnelPlace(
                    server: try EndpointAddress(host: settings.host, port: settings.loginTunnel.port), keys: $0)
            }
            let connections = Mutex<(@Sendable () -> MetricFamily)?>(nil)
            let shown = Shown(connections)
            parts.runtimeMetrics = {
                (runtime?.figures.families ?? []) + service.unsavedFamilies + shown.families
            }
            parts.backup = { (passphrase, caller) async throws(GatewayError) in
                try await Self.backup(folder, store, service, passphrase, caller)
            }
            parts.readiness = {
                var readiness = runtime?.readiness ?? Readiness()
                readiness.unsaved = service.unsaved
                readiness.listeners = service.listenerProblems
                return readiness
            }
            let api = try GatewayAPI(service, parts, logger: logger)
            service.useListeners { [weak api] in api?.problems ?? [] }
            shown.connections.withLock { $0 = { [weak api] in api?.connections ?? Shown.none } }
            (self.store, self.service, self.runtime, self.api) = (store, service, runtime, api)
        } catch let error as GatewayDirectoryError {
            throw GatewayProcessError(error)
        } catch let error as GatewayError {
            if case .unavailable(let reason) = error { throw GatewayProcessError(reason) }
            throw GatewayProcessError("\(error)")
        } catch {
            throw GatewayProcessError("\(error)")
        }
    }

    /// The certificate of addKey's listener. The first call makes it and its authority.
    private static func addKey(
        _ folder: GatewayDirectory, _ settings: GatewaySettings
    ) throws(GatewayDirectoryError) -> GatewayCertificate {
        try folder.makeAddKeyAuthority(host: settings.host)
        return try folder.addKeyCertificate().leaf
    }

    /// Makes a backup. The audit log gets its entry when the connection has accepted the whole file. The end of the HTTP
    /// body is sent afterwards, so that a client that receives it has a backup that is in the log.
    @concurrent
    private static func backup(
        _ folder: GatewayDirectory, _ store: GatewayStore, _ service: GatewayService, _ passphrase: [UInt8],
        _ caller: Caller
    ) async throws(GatewayError) -> ReplyStream {
        let audit = try service.backupRecord(caller)
        let backup: BackupContent
        do {
            backup = try await GatewayBackup.make(folder, store, passphrase: passphrase, audit: audit)
        } catch {
            throw .unavailable("cannot make a backup: \(error)")
        }
        return ReplyStream { send in
            do {
                try await backup.write(send)
                try await service.auditBackup(caller)
            } catch {
                service.logFailure("a backup was not delivered: \(error)")
                throw error
            }
        }
    }

    /// The connections of the API, for the metrics that the API serves. The function is set after the API was made.
    private final class Shown: Sendable {
        static let none = MetricFamily("culvert_gateway_connections", .gauge, "Connections of the API", [])
        let connections: Mutex<(@Sendable () -> MetricFamily)?>

        init(_ connections: consuming sending Mutex<(@Sendable () -> MetricFamily)?>) { self.connections = connections }

        var families: [MetricFamily] { connections.withLock { $0 }.map { [$0()] } ?? [] }
    }

    /// Serves until the task is cancelled or an error ends the gateway.
    /// - Parameter ready: Called once devices can enrol and connect.
    package func run(ready: @escaping @Sendable (GatewayProcess) -> Void) async throws(GatewayProcessError) {
        do {
            // Start the tunnels before the API, so that a device can connect as soon as it has enrolled.
            try await runtime?.start()
            do { try await api.open() } catch {
                await runtime?.stop()
                throw error
            }
            ready(self)
            let group = ServiceGroup(
                configuration: .init(
                    services: [
                        // Services end in reverse order: the API ends first, so it never reports a tunnel that has
                        // ended.
                        .init(service: Tunnel(runtime: runtime, service: service, logger: logger)), .init(service: api),
                    ], logger: logger))
            // `nil` means that the services did not end in time.
            let end = OneShot<Result<Void, any Error>?>()
            let serving = Task { try await group.run() }
            Task { end.finish(await serving.result) }
            let limit = GatewayAPI.grace + stopLimit + .seconds(1)
            let result = await withTaskCancellationHandler {
                await end.value
            } onCancel: {
                Task { await group.triggerGracefulShutdown() }
                Task {
                    try? await Task.sleep(for: limit)
                    end.finish(nil)
                }
            }
            if result == nil {
                logger.error("the API or the tunnel has not ended within \(limit); stopping without it")
                serving.cancel()
            }
            await runtime?.stop()
            if await service.finish(within: stopLimit) { await closeStore() }
            try result?.get()
        } catch let error as GatewayProcessError {
            throw error
        } catch {
            throw GatewayProcessError("\(error)")
        }
    }

    /// Closes the store on a separate thread, so that a database that does not answer cannot keep the process from
    /// ending.
    private func closeStore() async {
        let (store, logger) = (store, logger)
        let isClosed = await isDone(within: stopLimit) {
            do {
                let closed = try await WorkThreads(name: "culvert-close", count: 1).run {
                    Result { () throws(StoreError) in try store.close() }
                }
                try closed?.get()
            } catch StoreError.unavailable(let reason) {
                logger.error("cannot close the database: \(reason)")
            } catch {
                logger.error("cannot close the database: \(error)")
            }
        }
        if !isClosed { logger.error("cannot close the database: it has not answered within \(stopLimit)") }
    }

    /// The runtime as a service. Without a runtime, the service runs only the store's sweeps.
    private struct Tunnel: Service {
        var runtime: GatewayRuntime?
        var service: GatewayService
        var logger: Logger

        func run() async throws {
            try await cancelWhenGracefulShutdown {
                if let runtime { return try await runtime.run() }
                while (try? await Task.sleep(for: GatewayProcess.sweep)) != nil {
                    do throws(GatewayError) { try await service.sweep(.gateway) } catch {
                        service.logFailure("cannot record expiries and delete old entries, will retry: \(error)")
                    }
                }
            }
        }
    }
}

/// The error that prevents the start of a gateway, or has ended it.
package struct GatewayProcessError: Error, Hashable, Sendable, CustomStringConvertible {
    package var reason: String
    package var kind: GatewayDirectoryError.Kind
    /// The remedy; empty if there is none.
    package var fix: String

    package init(_ reason: String, _ kind: GatewayDirectoryError.Kind = .other, fix: String = "") {
        self.reason = reason
        self.kind = kind
        self.fix = fix
    }

    package init(_ error: GatewayDirectoryError) { self.init(error.reason, error.kind, fix: error.fix) }

    package var description: String { reason }
}

extension GatewayCertificate {
    /// Reads the administrators' own files.
    fileprivate init(_ files: GatewaySettings.CertificateFiles) throws(GatewayDirectoryError) {
        self.init(certificate: try Self.text(files.certificate), key: try Self.text(files.key))
    }

    private static func text(_ path: String) throws(GatewayDirectoryError) -> String {
        let file = OwnedDescriptor(SystemCall.open(path, 0))
        guard file.number >= 0, let bytes = SystemCall.readAll(file.number, limit: 1 << 20) else {
            throw GatewayDirectoryError("adminTLS: cannot read \(path)", fix: "permit the gateway's user to read it")
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
