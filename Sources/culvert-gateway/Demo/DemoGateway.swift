// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import DemoSupport
import FoundationEssentials
import Gateway
import Logging
import NetworkAddresses
import PacketTunnel
import TunnelSystem

/// A gateway in this process, with an interface in memory.
struct DemoGateway {
    let settings: GatewaySettings
    let directory: GatewayDirectory
    let process: GatewayProcess
    let host: DemoHost

    /// The steps show the errors.
    static let logger = Logger(label: "demo") { _ in SwiftLogNoOpLogHandler() }

    init(_ folder: String) throws {
        var settings = GatewaySettings()
        (settings.label, settings.host, settings.socket) = ("demo", "127.0.0.1", folder + "/run/admin.sock")
        settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd66::1/64")]
        settings.dns = [try IPAddress("10.66.0.1")]
        settings.api = .init(addresses: [.v4(127, 0, 0, 1)], port: try freePort(1))
        settings.admin = .init(addresses: [.v4(127, 0, 0, 1)], port: try freePort(1))
        settings.addKey.isEnabled = true
        settings.addKey.listener = .init(addresses: [.v4(127, 0, 0, 1)], port: try freePort(1))
        settings.wireGuardPort = try freePort(2)
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
        let (ready, process) = (OneShot<(any Error)?>(), process)
        let running = Task {
            do { try await process.run { _ in ready.finish(nil) } } catch {
                ready.finish(error)
                throw error
            }
        }
        if let error = await ready.value { throw error }
        let result: Result<Void, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        running.cancel()
        try await running.value
        try result.get()
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

/// A port of 127.0.0.1 that is free now, and in a moment, unless another process is very quick.
/// - Parameter kind: `SOCK_STREAM` (1) or `SOCK_DGRAM` (2), which C libraries declare as different types.
private func freePort(_ kind: Int32) throws(CommandFailure) -> UInt16 {
    func open(_ family: Int32, _ kind: Int32, _ number: Int32) -> Int32 { socket(family, kind, number) }
    let descriptor = OwnedDescriptor(open(AF_INET, kind | 0o2_000_000, 0))
    var (address, length) = (sockaddr_in(), socklen_t(MemoryLayout<sockaddr_in>.size))
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let number = descriptor.number
    let isBound = unsafe withUnsafeMutablePointer(to: &address) { pointer in
        unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
            unsafe bind(number, pointer, length) == 0 && getsockname(number, pointer, &length) == 0
        }
    }
    guard isBound else { throw CommandFailure("no port is free: \(SystemError.words(errno))") }
    return UInt16(bigEndian: address.sin_port)
}
