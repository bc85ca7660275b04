// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import Logging
package import NIOSSL
import NetworkAddresses
package import PacketTunnelLinux
import Provisioning
import ServiceLifecycle
import Synchronization
import TunnelSystem

/// All listeners of a gateway, each with separate routes: the administrators' API, the Unix socket, the device API if
/// WireGuard is served, and `addKey` if the settings enable it.
package final class GatewayAPI: Service, Sendable {
    /// The configuration of the API, apart from the service.
    package struct Parts: Sendable {
        /// The certificate of the device API. Devices have the pins of its keys.
        package var device: GatewayCertificate
        /// The certificate of the administrators' API, or `nil` for plain HTTP.
        package var admin: GatewayCertificate?
        package var addKey: GatewayCertificate?
        package var invitations: InvitationTemplate
        /// The user who may use the socket in addition to root.
        package var socketUser: UInt32
        package var version: String
        package var limits = HTTPLimits()
        package var registry = MetricRegistry(help: GatewayAPI.help)
        /// The metrics of the runtime.
        package var runtimeMetrics: @Sendable () async -> [MetricFamily] = { [] }
        package var readiness: @Sendable () async -> Readiness = { Readiness() }
        /// Makes an encrypted backup with a passphrase; `nil` if the gateway cannot make one.
        package var backup: AdminRoutes.Backup?
        /// The server and the keys of the login tunnel, or `nil` if the gateway does not serve it.
        package var loginTunnel: LoginTunnelPlace?

        package init(
            device: GatewayCertificate, admin: GatewayCertificate? = nil,
            addKey: GatewayCertificate? = nil, invitations: InvitationTemplate, socketUser: UInt32, version: String
        ) {
            self.device = device
            self.admin = admin
            self.addKey = addKey
            self.invitations = invitations
            self.socketUser = socketUser
            self.version = version
        }
    }

    /// The kinds of listeners.
    package enum Kind: String, Hashable, Sendable, CaseIterable { case device, admin, socket, addKey }

    private struct Entry: Sendable {
        var kind: Kind
        var listener: HTTPListener
        /// Whether the API can start without this listener.
        var isOptional: Bool
    }

    private let entries: [Entry]
    private let logger: Logger
    private let ports = Mutex<[Kind: Int]>([:])
    static let grace = Duration.seconds(5)

    static let help = [
        "culvert_gateway_requests_total": "Requests of the API by listener, route and status",
        "culvert_gateway_request_seconds": "Time until the answer, in seconds",
        "culvert_gateway_refusals_total": "Refused requests and connections, by cause",
        "culvert_gateway_enrolments_total": "Devices that enrolled",
        "culvert_gateway_enrolment_repetitions_total": "Repeated enrolments that got the answer of the first request",
    ]

    /// - Throws: ``GatewayDirectoryError`` if a certificate or the path of the socket cannot be used.
    package init(_ service: GatewayService, _ parts: Parts, logger: Logger) throws(GatewayDirectoryError) {
        self.logger = logger
        let settings = service.settings
        let registry = parts.registry
        let tables = GatewayRoutes(service, parts)
        var entries: [Entry] = []
        func add(
            _ kind: Kind, _ name: String, _ places: [HTTPListener.Place], _ pair: GatewayCertificate?,
            isModern: Bool, _ routes: RouteList, socketUsers: Set<UInt32>? = nil
        ) throws(GatewayDirectoryError) {
            let responder = APIResponder(
                name: kind.rawValue, routes: routes, service: service, socketUsers: socketUsers,
                metrics: registry, logger: logger)
            let tls = try pair?.tls(isModern: isModern)
            for place in places {
                let listener = HTTPListener(
                    name: name, place: place, tls: tls, limits: parts.limits, responder: responder, logger: logger)
                entries.append(Entry(kind: kind, listener: listener, isOptional: places.count > 1))
            }
        }
        func places(_ listener: GatewaySettings.Listener) -> [HTTPListener.Place] {
            listener.addresses.map { .address("\($0)", port: Int(listener.port)) }
        }
        if settings.servesWireGuard {
            try add(.device, "device API", places(settings.api), parts.device, isModern: true, tables.device)
        }
        try add(.admin, "administrators' API", places(settings.admin), parts.admin, isModern: true, tables.admin)
        if settings.addKey.isEnabled, let pair = parts.addKey {
            try add(
                .addKey, "addKey listener", places(settings.addKey.listener), pair, isModern: false,
                try tables.addKey(settings))
        }
        let socket: UnixListener
        do throws(UnixListener.Failure) {
            socket = try UnixListener(path: settings.socket, isGuarded: true)
        } catch {
            throw GatewayDirectoryError(socket: settings.socket, error)
        }
        try add(
            .socket, "administrators' socket", [.unix(socket)], nil, isModern: true, tables.admin,
            socketUsers: [0, parts.socketUser])
        self.entries = entries
    }

    /// The number of listeners of a gateway with these settings.
    package static func listenerCount(_ settings: GatewaySettings) -> Int {
        let device = settings.servesWireGuard ? settings.api.addresses.count : 0
        let addKey = settings.addKey.isEnabled ? settings.addKey.listener.addresses.count : 0
        // Plus one for the Unix socket.
        return device + settings.admin.addresses.count + addKey + 1
    }

    /// The port of an open listener.
    package func port(_ kind: Kind) -> Int? { ports.withLock { $0[kind] } }

    /// The current connections, for the metrics.
    package var connections: MetricFamily {
        var counts: [Kind: Int] = [:]
        for entry in entries { counts[entry.kind, default: 0] += entry.listener.connectionCount }
        return MetricFamily(
            "culvert_gateway_connections", .gauge, "Connections of the API",
            counts.sorted { $0.key.rawValue < $1.key.rawValue }.map {
                .init(Double($0.value), labels: [.init("listener", $0.key.rawValue)])
            })
    }

    /// The listeners that accept no connections.
    package var problems: [NetworkProblem] { entries.compactMap(\.listener.problem) }

    /// Binds all listeners. Requests wait until ``run()``.
    package func open() async throws(ListenerError) {
        var missing: [Kind: ListenerError] = [:]
        for entry in entries {
            do throws(ListenerError) {
                let port = try await entry.listener.open()
                ports.withLock { $0[entry.kind] = port }
            } catch {
                // A host without IPv6 cannot bind an IPv6 address.
                guard entry.isOptional, error.isMissingFamily else { throw error }
                missing[entry.kind] = error
                logger.warning("\(error)")
            }
        }
        if let error = missing.first(where: { self.port($0.key) == nil })?.value { throw error }
    }

    /// Serves until ``stop()``, a graceful shutdown or the end of the task.
    package func run() async throws {
        await withGracefulShutdownHandler {
            await withTaskCancellationHandler {
                await withDiscardingTaskGroup { group in
                    for entry in entries { group.addTask { await entry.listener.run() } }
                }
            } onCancel: {
                Task { await self.stop() }
            }
        } onGracefulShutdown: {
            Task { await self.stop() }
        }
    }

    /// Ends all listeners after the requests in progress have been answered.
    package func stop() async {
        await withDiscardingTaskGroup { group in
            for entry in entries { group.addTask { await entry.listener.stop(within: Self.grace) } }
        }
    }
}

/// The routes of each listener.
package struct GatewayRoutes: Sendable {
    private let service: GatewayService
    private let parts: GatewayAPI.Parts

    package init(_ service: GatewayService, _ parts: GatewayAPI.Parts) {
        self.service = service
        self.parts = parts
    }

    /// The routes for devices.
    package var device: RouteList {
        let registry = parts.registry
        var list = RouteList()
        DeviceRoutes(service) { isRepetition in
            registry.count(
                isRepetition
                    ? "culvert_gateway_enrolment_repetitions_total" : "culvert_gateway_enrolments_total")
        }.register(in: &list)
        return list
    }

    /// The routes for administrators.
    package var admin: RouteList {
        let (registry, runtime) = (parts.registry, parts.runtimeMetrics)
        var list = RouteList()
        AdminRoutes(
            service, invitations: parts.invitations, backup: parts.backup, loginTunnel: parts.loginTunnel
        ).register(in: &list)
        SystemRoutes(service, metrics: { registry.families + (await runtime()) }, readiness: parts.readiness)
            .register(in: &list)
        OpenAPIDocument.register(in: &list, title: "Culvert gateway", version: parts.version)
        return list
    }

    /// The routes for PIA's clients.
    func addKey(_ settings: GatewaySettings) throws(GatewayDirectoryError) -> RouteList {
        let address =
            settings.endpoints.lazy.compactMap { try? IPAddress($0.host) }.first ?? (try? IPAddress(settings.host))
        guard let address else {
            throw GatewayDirectoryError(
                "addKey needs an IP address for its clients, but 'host' is a name",
                fix: "add an IP address and a port to 'endpoints' in \(GatewaySettings.fileName)")
        }
        guard let inner = settings.addresses.first(where: { !$0.isIPv6 })?.address else {
            throw GatewayDirectoryError("addKey needs an IPv4 network among 'addresses'")
        }
        var list = RouteList()
        AddKeyRoutes(service, server: .init(address: address, innerAddress: inner)).register(in: &list)
        return list
    }
}

extension GatewayDirectoryError {
    fileprivate init(socket path: String, _ failure: UnixListener.Failure) {
        switch failure {
        case .alreadyRunning: self.init("a gateway is already running: \(path) answers", kind: .exists)
        case .invalidPath: self.init("\(path) is not a valid path for a socket")
        case .notASocket: self.init("\(path) is not a socket", fix: "remove it")
        case .unsafeFolder(let folder):
            self.init(
                "other users can change \(folder)", kind: .denied,
                fix: "chown \(geteuid()) \(folder) && chmod 0755 \(folder)")
        case .system(let path, let operation, let error):
            self.init(
                "\(path): \(operation): \(SystemError.words(error))",
                kind: SystemError.isDenied(error) ? .denied : .other)
        }
    }
}

extension GatewayCertificate {
    /// The TLS settings of a listener with this certificate.
    /// - Parameter isModern: Whether TLS 1.3 is required.
    package func tls(isModern: Bool) throws(GatewayDirectoryError) -> TLSConfiguration {
        do {
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: try NIOSSLCertificate.fromPEMBytes(Array(certificate.utf8)).map { .certificate($0) },
                privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.utf8), format: .pem)))
            configuration.minimumTLSVersion = isModern ? .tlsv13 : .tlsv12
            configuration.applicationProtocols = ["http/1.1"]
            return configuration
        } catch {
            throw GatewayDirectoryError("cannot use a certificate or its key: \(error)")
        }
    }
}
