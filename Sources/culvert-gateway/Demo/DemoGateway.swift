// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import DemoSupport
import FoundationEssentials
import Gateway
import Logging
import NetworkAddresses
import TunnelIO
import TunnelSystem

/// A gateway in this process, with an interface in memory.
struct DemoGateway {
    let settings: GatewaySettings
    let directory: GatewayDirectory
    let process: GatewayProcess
    let host: DemoHost

    /// A logger that discards all messages, because the steps show the errors.
    static let logger = Logger(label: "demo") { _ in SwiftLogNoOpLogHandler() }

    init(_ folder: String) throws {
        // Choose a loopback address and ports that other processes hardly ever use. Processes that listen on all
        // addresses use well-known ports, and the ports that the system chooses for connections are above these.
        let address = IPAddress.v4(127, .random(in: 1...254), .random(in: 1...254), .random(in: 1...254))
        var settings = GatewaySettings()
        (settings.label, settings.host, settings.socket) = ("demo", "\(address)", folder + "/run/admin.sock")
        settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd66::1/64")]
        settings.dns = [try IPAddress("10.66.0.1")]
        let port = UInt16.random(in: 20_000...30_000)
        settings.api = .init(addresses: [address], port: port)
        settings.admin = .init(addresses: [address], port: port + 1)
        settings.addKey.isEnabled = true
        settings.addKey.listener = .init(addresses: [address], port: port + 2)
        // Use a port that is free now. Another process could take it before the gateway binds it, but that is unlikely.
        let sockets = try SystemDatagramNetwork().bind(port: 0, mark: 0)
        settings.wireGuardPort = sockets.port
        sockets.close()
        directory = try GatewayDirectory.make(folder + "/gateway", settings, backupKey: folder + "/backup.key")
        host = try DemoHost(name: "gateway", addresses: settings.addresses.map(\.address), mtu: settings.mtu)
        var options = GatewayProcess.Options(
            network: MemoryPeerNetwork(host.tun, addresses: settings.addresses), socketUser: geteuid())
        options.version = programVersion
        process = try GatewayProcess(directory, settings: settings, options, logger: Self.logger)
        self.settings = settings
    }

    /// Runs `body` while the gateway runs.
    func serve(_ body: () async throws -> Void) async throws {
        let (ready, process) = (OneShot<Bool>(), process)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                defer { ready.finish(false) }
                try await process.run { _ in ready.finish(true) }
            }
            // The gateway did not start: throw its error.
            guard await ready.value else { return try await group.waitForAll() }
            do { try await body() } catch {
                // If the gateway has failed, the steps fail too: throw the gateway's error, which is the cause.
                group.cancelAll()
                if case .failure(let cause)? = await group.nextResult(), !(cause is CancellationError) { throw cause }
                throw error
            }
            group.cancelAll()
            try await group.waitForAll()
        }
    }
}

/// A new folder for the files of a demonstration, which no other user can read.
struct DemoFolder {
    let path: String

    init(in place: String = FileManager.default.temporaryDirectory.path) throws(CommandFailure) {
        path = "\(place)/culvert-gateway-demo-\(String(UInt64.random(in: 0 ... .max), radix: 36))"
        guard unsafe mkdir(path, 0o700) == 0 else {
            throw CommandFailure(
                "no folder can be made in \(place): \(SystemError.text(errno))",
                fix: "name a folder that you may write to in TMPDIR")
        }
    }

    func remove() { try? FileManager.default.removeItem(atPath: path) }
}
