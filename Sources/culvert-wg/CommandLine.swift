// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO
import TunnelSystem
import WireGuardDevice

/// The options of the daemon from the arguments and the environment.
struct DaemonOptions: Equatable {
    enum LogLevel: Equatable {
        case silent
        case error
        case verbose
    }

    var interfaceName: String
    var isForeground = false
    var logLevel = LogLevel.error
    /// Whether the background process keeps standard output and error, which it does if `LOG_LEVEL` is a known level
    /// that logs.
    var keepsOutput = false
    /// The layout of threads.
    var layout = LaneLayout.automatic
    /// The memory limit of the device, or `nil` for no limit besides the bounds of the configuration.
    var budget: MemoryBudget?
    /// The implementation of ChaCha20-Poly1305.
    var aead = TransportAEAD.Choice.standard
    /// The descriptor of a TUN device that the caller has opened, or `nil`.
    var tunDescriptor: Int32?
    /// The descriptor of a listening management socket that the caller has opened, or `nil`.
    var uapiDescriptor: Int32?
    /// The path of the file for the interface name, which is written if the system chooses the name; `nil` for no file.
    var nameFile: String?
    /// The descriptor on which the daemon reports that it is up, or `nil`.
    var readyDescriptor: Int32?
    /// The warnings to log before the start.
    var warnings: [String] = []

    enum Request: Equatable {
        case run(DaemonOptions)
        case help
        case version
    }

    struct UsageError: Error, Equatable {
        var message: String
    }

    static let version = CulvertVersion.text.description

    /// The flags, with all their spellings.
    enum Flag: CaseIterable {
        case foreground
        case help
        case version

        var names: [String] {
            switch self {
            case .foreground: ["-f", "--foreground"]
            case .help: ["-h", "--help"]
            case .version: ["-v", "--version"]
            }
        }

        init?(_ argument: String) {
            guard let flag = Self.allCases.first(where: { $0.names.contains(argument) }) else { return nil }
            self = flag
        }
    }

    /// The option that selects the implementation of ChaCha20-Poly1305; its value follows, or `=` and its value.
    static let aeadOption = "--aead"

    /// The environment variables that the daemon reads.
    enum Variable: String, CaseIterable {
        case logLevel = "LOG_LEVEL"
        case foreground = "WG_PROCESS_FOREGROUND"
        case tunDescriptor = "WG_TUN_FD"
        case uapiDescriptor = "WG_UAPI_FD"
        case nameFile = "WG_TUN_NAME_FILE"
        /// The descriptor on which the daemon reports that it is up.
        case readyDescriptor = "CULVERT_READY_FD"
        /// The layout of threads.
        case layout = "CULVERT_LANES"
        /// The memory limit of the device.
        case memory = "CULVERT_MEMORY"
        /// The implementation of ChaCha20-Poly1305; the option has precedence.
        case aead = "CULVERT_AEAD"
        // The following variables each turn off an offload. The code that makes devices and sockets reads them.
        case udpGSO = "CULVERT_UDP_GSO"
        case udpGRO = "CULVERT_UDP_GRO"
        case tunTSO = "CULVERT_TUN_TSO"
        case tunUSO = "CULVERT_TUN_USO"
        case tunTCPGRO = "CULVERT_TUN_TCP_GRO"
        case tunUDPGRO = "CULVERT_TUN_UDP_GRO"

        /// The variables that the background process inherits.
        static let inherited: [Variable] = [
            .logLevel, .layout, .memory, .udpGSO, .udpGRO, .tunTSO, .tunUSO, .tunTCPGRO, .tunUDPGRO,
        ]
    }

    /// The exit statuses of the daemon.
    enum Status: Int32, CaseIterable {
        case success = 0
        case failure = 1
        case usage = 2
    }

    static let help = """
        culvert-wg: a userspace WireGuard daemon for one interface

        usage: culvert-wg [-f|--foreground] [--aead NAME] INTERFACE
               culvert-wg --help | --version

        Makes the interface, serves /var/run/wireguard/INTERFACE.sock for wg(8), and goes to the background. It ends
        on SIGINT or SIGTERM, when the interface is deleted, and when the socket is removed. On SIGUSR1 it writes what it
        moved and dropped so far to its log.

          -f, --foreground    run in the foreground
          --aead NAME         ChaCha20-Poly1305 by boringssl, by ipsec-mb (libipsec-mb1 1.3 on a processor with AVX-512
                              and IFMA), or auto (the default): ipsec-mb if this machine has it

        Environment:
          LOG_LEVEL               verbose (or debug), error (the default), silent
          WG_PROCESS_FOREGROUND   1: stay in the foreground
          WG_TUN_FD               use this descriptor as the TUN device
          WG_UAPI_FD              use this descriptor as the listening management socket
          WG_TUN_NAME_FILE        where to write the name the system chose (macOS, for the name "utun")
          CULVERT_LANES           threads: auto (the default), server (a lane for each core, for many peers), 1, 2 (one
                                  for each direction), or 3 to 64 lanes
          CULVERT_MEMORY          most memory: extension (8 MiB), client (24 MiB), gateway:PEERS, or MIB:PEERS; without
                                  it, tables grow with the configuration
          CULVERT_AEAD            the same as --aead, which has precedence
          CULVERT_UDP_GSO, CULVERT_UDP_GRO, CULVERT_TUN_TSO, CULVERT_TUN_USO, CULVERT_TUN_TCP_GRO,
          CULVERT_TUN_UDP_GRO     0: do without this offload (Linux)

        Examples:
          culvert-wg wg0 && wg setconf wg0 /etc/wireguard/wg0.conf && ip link set wg0 up
          WG_QUICK_USERSPACE_IMPLEMENTATION=culvert-wg wg-quick up wg0
          LOG_LEVEL=verbose culvert-wg -f wg0

        Exit status: 0, 1, 2; see culvert-wg(8).

        WireGuard is a registered trademark of Jason A. Donenfeld.
        """

    /// Reads arguments (without the program's name) and environment.
    static func parse(
        _ arguments: [String], environment lookup: (String) -> String?
    ) throws(UsageError) -> Request {
        func environment(_ variable: Variable) -> String? { lookup(variable.rawValue) }
        var name: String?
        var isForeground = false
        var aead = environment(.aead).map { (Variable.aead.rawValue, $0) }
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if argument == aeadOption {
                guard let value = rest.popFirst() else { throw UsageError(message: "\(aeadOption) has no value") }
                aead = (aeadOption, value)
                continue
            }
            if argument.hasPrefix("\(aeadOption)=") {
                aead = (aeadOption, String(argument.dropFirst(aeadOption.utf8.count + 1)))
                continue
            }
            switch Flag(argument) {
            case .foreground: isForeground = true
            case .help: return .help
            case .version: return .version
            case nil:
                if argument.hasPrefix("-") {
                    throw UsageError(message: "unknown option '\(argument)'; see culvert-wg --help")
                }
                guard name == nil else {
                    throw UsageError(message: "more than one interface name: '\(name ?? "")' and '\(argument)'")
                }
                name = argument
            }
        }
        guard let name else { throw UsageError(message: "an interface name is missing; see culvert-wg --help") }
        guard isInterfaceName(name) else {
            throw UsageError(
                message: "'\(name)' is not an interface name: 1 to 15 characters, without '/', ':', '%' or spaces")
        }
        var options = DaemonOptions(interfaceName: name, isForeground: isForeground)
        if environment(.foreground) == "1" { options.isForeground = true }
        switch environment(.logLevel) {
        case nil, "": break
        case "verbose", "debug", "info":
            options.logLevel = .verbose
            options.keepsOutput = true
        case "error": options.keepsOutput = true
        case "silent": options.logLevel = .silent
        case .some(let other):
            // Only warn: an environment that works with another implementation must work with this program.
            options.warnings.append(
                "LOG_LEVEL is '\(other)' and must be verbose, debug, error or silent; using error")
        }
        if let (source, text) = aead, source == aeadOption || !text.isEmpty {
            guard let choice = TransportAEAD.Choice(rawValue: text) else {
                throw UsageError(message: "\(source) is '\(text)'; it must be \(TransportAEAD.Choice.names)")
            }
            options.aead = choice
        }
        options.layout = try layout(environment, &options.warnings)
        options.budget = try budget(environment, for: options.layout)
        options.tunDescriptor = try descriptor(.tunDescriptor, environment)
        options.uapiDescriptor = try descriptor(.uapiDescriptor, environment)
        options.readyDescriptor = try descriptor(.readyDescriptor, environment)
        options.nameFile = environment(.nameFile).flatMap { $0.isEmpty ? nil : $0 }
        return .run(options)
    }

    private static func budget(
        _ environment: (Variable) -> String?, for layout: LaneLayout
    ) throws(UsageError) -> MemoryBudget? {
        guard let text = environment(.memory), !text.isEmpty else { return nil }
        do throws(MemoryBudgetTextError) {
            return try MemoryBudget(text: text, lanes: layout.queueCount)
        } catch {
            throw UsageError(message: "\(Variable.memory.rawValue) is \(error)")
        }
    }

    private static func layout(
        _ environment: (Variable) -> String?, _ warnings: inout [String]
    ) throws(UsageError) -> LaneLayout {
        guard let text = environment(.layout), !text.isEmpty else { return .automatic }
        guard let layout = LaneLayout(text) else {
            throw UsageError(
                message: """
                    \(Variable.layout.rawValue) is '\(text)'; it must be auto, server, 1, 2, or a number of lanes up to \
                    \(LaneLayout.mostLanes)
                    """)
        }
        let parts = text.split(separator: "+")
        if parts.count == 2, parts[1] != "0" {
            warnings.append(
                "\(Variable.layout.rawValue) is '\(text)', but workers no longer exist; ignoring '+\(parts[1])'")
        }
        return layout
    }

    private static func descriptor(
        _ variable: Variable, _ environment: (Variable) -> String?
    ) throws(UsageError) -> Int32? {
        guard let text = environment(variable), !text.isEmpty else { return nil }
        guard let number = Int32(text), number >= 0 else {
            throw UsageError(message: "\(variable.rawValue) is '\(text)'; it must be the number of an open descriptor")
        }
        return number
    }

    /// Whether Linux and wg(8) both accept a name.
    static func isInterfaceName(_ name: String) -> Bool {
        guard (1...15).contains(name.utf8.count), name != ".", name != ".." else { return false }
        return name.utf8.allSatisfy { byte in
            byte > 0x20 && byte < 0x7f && byte != UInt8(ascii: "/") && byte != UInt8(ascii: ":")
                && byte != UInt8(ascii: "%")
        }
    }
}
