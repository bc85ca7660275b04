// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import FoundationEssentials
    import NetworkAddresses
    import TunnelSystem
    import WireGuardDevice

    /// The options of `culvert up`, read without the parser, which would take as long as the rest of a process's start. A
    /// process of the tunnel gets them as text from the process that has parsed them. Arguments without options need no
    /// parser.
    struct PassedUp: Codable, Hashable {
        private var tunnel: String
        private var interface: String?
        private var leakPolicy: LeakPolicyName?
        private var localNetwork: Bool?
        private var allowedNetworks: [IPPrefix] = []
        private var memory = UpCommand.standardMemory
        private var aead = TransportAEAD.Choice.standard.rawValue
        private var noDns = false
        private var ping: String?
        private var connectivityInterval: Double?
        private var maxConnectionAttempts: Int?
        private var pingInterval: Double?
        private var endWhenDead: EndWhenDeadName?
        private var monitor: Bool?
        private var timeout = UpCommand.standardTimeout
        private var doesNotWait = false
        private var foreground = false
        private var verbose = false
        private var permittedUsers: [String] = []
        private var reportDescriptor: Int32?
        private var runPrograms: String?
        private var profiles = ProfileFolder.standard
        private var runtimeDirectory: String?

        /// Reads arguments that consist of the tunnel and, for a process of the tunnel, of its private options. Returns `nil`
        /// for other arguments.
        init?(plain arguments: [String]) {
            guard arguments.count >= 2, arguments[0] == UpCommand.name, !arguments[1].isEmpty,
                !arguments[1].hasPrefix("-")
            else { return nil }
            tunnel = arguments[1]
            var rest = arguments.dropFirst(2)
            while let option = rest.popFirst() {
                switch option {
                case "--foreground": foreground = true
                case "--report-descriptor":
                    guard let number = rest.popFirst().flatMap({ Int32($0) }), number >= 0 else { return nil }
                    reportDescriptor = number
                case "--run-programs":
                    guard let place = rest.popFirst(), !place.hasPrefix("-") else { return nil }
                    runPrograms = place
                default: return nil
                }
            }
        }

        init(_ command: UpCommand) {
            (tunnel, interface) = (command.tunnel, command.interface)
            leakPolicy = command.passing.leakPolicy
            localNetwork = command.passing.localNetwork
            allowedNetworks = command.passing.allowedNetworks
            (memory, aead, noDns) = (command.memory, command.aead, command.noDns)
            ping = command.connectivity.ping
            connectivityInterval = command.connectivity.connectivityInterval
            maxConnectionAttempts = command.connectivity.maxConnectionAttempts
            pingInterval = command.connectivity.pingInterval
            endWhenDead = command.connectivity.endWhenDead
            monitor = command.connectivity.monitor
            (timeout, doesNotWait) = (command.timeout, command.doesNotWait)
            (foreground, verbose) = (command.foreground, command.verbose)
            permittedUsers = command.users.permittedUsers
            (reportDescriptor, runPrograms) = (command.reportDescriptor, command.runPrograms)
            (profiles, runtimeDirectory) = (command.profiles.path, command.runtime.runtimeDirectory)
        }

        /// The command with these options. Every option is set, because a command that was not parsed has no values.
        var command: UpCommand {
            var command = UpCommand()
            (command.tunnel, command.interface) = (tunnel, interface)
            var passing = LeakPolicyOptions()
            (passing.leakPolicy, passing.localNetwork) = (leakPolicy, localNetwork)
            passing.allowedNetworks = allowedNetworks
            command.passing = passing
            (command.memory, command.aead, command.noDns) = (memory, aead, noDns)
            var connectivity = ConnectivityArguments()
            (connectivity.ping, connectivity.connectivityInterval) = (ping, connectivityInterval)
            (connectivity.maxConnectionAttempts, connectivity.pingInterval) = (maxConnectionAttempts, pingInterval)
            (connectivity.endWhenDead, connectivity.monitor) = (endWhenDead, monitor)
            command.connectivity = connectivity
            (command.timeout, command.doesNotWait) = (timeout, doesNotWait)
            (command.foreground, command.verbose) = (foreground, verbose)
            var users = UserOptions()
            users.permittedUsers = permittedUsers
            command.users = users
            (command.reportDescriptor, command.runPrograms) = (reportDescriptor, runPrograms)
            var profiles = ProfileOptions()
            profiles.path = self.profiles
            command.profiles = profiles
            var runtime = RuntimeOptions()
            runtime.runtimeDirectory = runtimeDirectory
            command.runtime = runtime
            return command
        }

        // MARK: - Text

        /// The options as text, for a process with these arguments. Empty if the process needs no text, or must parse its arguments,
        /// because the options have none.
        func text(for arguments: [String]) -> [UInt8] {
            guard PassedUp(plain: arguments) != self else { return [] }
            return (try? JSONEncoder().encode(self)).map { Array($0) } ?? []
        }

        /// Decodes a text. Returns `nil` if it is not complete.
        init?(text: [UInt8]) {
            guard !text.isEmpty, let options = try? JSONDecoder().decode(PassedUp.self, from: Data(text)) else {
                return nil
            }
            self = options
        }

        private static let mostBytes = 1 << 20

        /// Reads the options from standard input, if the arguments are those of a process that gets them there.
        init?(for arguments: [String]) {
            guard arguments.contains(where: { $0 == "--report-descriptor" || $0 == "--run-programs" }),
                FileStatus(of: 0)?.kind == .file, let text = SystemCall.readAll(0, limit: Self.mostBytes)
            else { return nil }
            Self.releaseInput()
            self.init(text: text)
        }

        /// Replaces the memory file by /dev/null, so that this process and its children do not keep it.
        private static func releaseInput() {
            let null = SystemCall.open("/dev/null", O_RDONLY)
            guard null >= 0 else { return }
            _ = SystemCall.retry { dup2(null, 0) }
            close(null)
        }
    }
#endif
