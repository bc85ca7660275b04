// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import Gateway
    import NetworkAddresses
    import Provisioning
    import TunnelSystem

    /// The work of `culvert gateway init`.
    struct InitTool {
        var console: Console
        var directory: String

        func make(_ command: InitCommand) throws(CommandFailure) {
            let settings = try settings(command)
            // Make the whole folder as root, and then change its owner. The backup key remains a file of root.
            try FolderOwner.makeParent(of: directory, owner: command.owner)
            let pins: GatewayDirectory.Pins
            do throws(GatewayDirectoryError) {
                pins = try GatewayDirectory.make(directory, settings, backupKey: command.backupKey).pins()
            } catch {
                throw CommandFailure(error)
            }
            if let owner = command.owner { try FolderOwner.changeOwner(of: directory, to: owner) }
            show(settings, pins, command)
        }

        private func settings(_ command: InitCommand) throws(CommandFailure) -> GatewaySettings {
            var settings = GatewaySettings()
            do throws(AddressTextError) {
                settings.host = try EndpointAddress(host: command.host, port: 1).host
                settings.addresses = try [command.address4, command.address6 ?? Self.ownNetwork()]
                    .filter { $0 != "none" }.map { text throws(AddressTextError) in try InterfaceAddress(text) }
                settings.dns = try command.dns.map { text throws(AddressTextError) in try IPAddress(text) }
            } catch {
                throw CommandFailure("\(error)", status: ExitStatus.usage)
            }
            settings.label = command.label
            settings.wireGuardPort = command.port.number
            settings.api.port = command.apiPort.number
            settings.servesWireGuard = !command.loginTunnelOnly
            settings.loginTunnel.isEnabled = command.loginTunnelOnly
            return settings
        }

        /// A unique local network (RFC 4193 section 3.2), whose 40 random bits prevent collisions with other networks.
        private static func ownNetwork() -> String {
            let bits = UInt64.random(in: 0..<1 << 40)
            return "\(IPAddress.v6(0xfd << 56 | bits << 16, 1))/64"
        }

        private func show(_ settings: GatewaySettings, _ pins: GatewayDirectory.Pins, _ command: InitCommand) {
            if command.json {
                let document: JSON = [
                    "directory": .string(directory), "host": .string(settings.host),
                    "pins": .array([pins.active, pins.backup].map { .string($0.description) }),
                    "addresses": .array(settings.addresses.map { .string($0.description) }),
                    "backupKey": .string(command.backupKey),
                ]
                return console.line(document.text)
            }
            console.line("The gateway's folder is \(directory): settings, keys and, once it runs, the database.")
            console.line(
                settings.servesWireGuard
                    ? "Devices reach it at \(settings.host): TCP port \(settings.api.port) for the API, UDP port \(settings.wireGuardPort) for WireGuard."
                    : "Clients reach it at \(settings.host): UDP port \(settings.loginTunnel.port) for the login tunnel."
            )
            console.line("Devices get addresses of \(settings.networks.map(\.description).joined(separator: " and ")).")
            if settings.servesWireGuard {
                console.line("Pins of the device API, active and backup:")
                for pin in [pins.active, pins.backup] { console.line("  \(pin)") }
            }
            console.line("The backup key is in \(command.backupKey) and nowhere else. Move it off this machine.")
            if settings.dns.isEmpty {
                console.line("Devices get no name servers. Use --dns, or dns in gateway.json, to set them.")
            }
            console.line()
            console.line("Next:")
            let ports = settings.servesWireGuard ? "the two ports" : "the port"
            console.line("  1. open \(ports) in the firewall in front of this host, if there is one")
            console.line("  2. culvert gateway run, or: systemctl enable --now culvert-gateway")
            console.line("  3. culvert gateway user add LOGIN")
            guard settings.servesWireGuard else {
                console.line("  4. culvert gateway user password LOGIN")
                return console.line("  5. culvert gateway login-tunnel, for 'culvert profile add-login' on the client")
            }
            console.line("  4. culvert gateway invite LOGIN --output FILE, for 'culvert enroll' on the device")
        }
    }

    extension CommandFailure {
        init(_ error: GatewayDirectoryError) {
            let status =
                switch error.kind {
                case .other, .damaged: ExitStatus.failure
                case .missing: ExitStatus.notFound
                case .inUse: ExitStatus.alreadyRunning
                case .exists, .newer, .wrongPassphrase, .unusable: ExitStatus.usage
                case .denied: ExitStatus.notPermitted
                }
            self.init(error.reason, status: status, fix: error.fix)
        }
    }
#endif
