// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem
import WireGuardDevice

@main
enum Daemon {
    static func main() {
        let request: DaemonOptions.Request
        do throws(DaemonOptions.UsageError) {
            request = try DaemonOptions.parse(
                Array(CommandLine.arguments.dropFirst()), environment: ProcessEnvironment.value)
        } catch {
            Output.error("culvert-wg: \(error.message)")
            exit(DaemonOptions.Status.usage.rawValue)
        }
        switch request {
        case .help: Output.line(DaemonOptions.help)
        case .version: Output.line("culvert-wg \(DaemonOptions.version)")
        case .run(let options):
            do throws(TransportAEADError) {
                // Before anything is made that a failure would leave behind. The background process has its own turn; here
                // only the choice that can fail matters.
                if options.isForeground || options.aead == .ipsecMB { try TransportAEAD.select(options.aead) }
            } catch {
                Output.error("culvert-wg: \(error)\n  fix: \(error.fix)")
                // As after wrong usage: a restart without a change cannot succeed.
                exit(DaemonOptions.Status.usage.rawValue)
            }
            do throws(WireGuardDeviceError) {
                try run(options)
            } catch {
                Output.error("culvert-wg: \(options.interfaceName): \(error)")
                exit(DaemonOptions.Status.failure.rawValue)
            }
        }
    }

    /// Opens the TUN device and the management socket, which need privileges. Then runs in the foreground or continues
    /// in the background.
    private static func run(_ options: DaemonOptions) throws(WireGuardDeviceError) {
        for warning in options.warnings { Output.error("culvert-wg: \(warning)") }
        // In the background process, close all descriptors except those that the parent has passed.
        if let ready = options.readyDescriptor { Privileges.closeInherited(from: ready + 1) }
        let tun = try openTun(options)
        let name: String
        do throws(TunnelIOError) { name = try tun.currentName() } catch { throw WireGuardDeviceError(error) }
        let path = ManagementSocket.path(forInterface: name)
        let socket =
            if let descriptor = options.uapiDescriptor {
                try ManagementSocket(descriptor: descriptor, path: path)
            } else {
                try ManagementSocket(path: path)
            }
        try writeNameFile(options, name)
        guard options.isForeground else {
            try withExtendedLifetime((tun, socket)) { () throws(WireGuardDeviceError) in
                try Background.spawn(tun: tun.readiness, management: socket.descriptor, options)
                // Exit without removing the interface and the socket, which the child uses now.
                _exit(DaemonOptions.Status.success.rawValue)
            }
            return
        }
        try serve(tun, socket, options)
    }

    private static func openTun(_ options: DaemonOptions) throws(WireGuardDeviceError) -> any TunDevice {
        do throws(TunnelIOError) {
            if let descriptor = options.tunDescriptor { return try SystemTun(descriptor: descriptor) }
            return try makeTun(options)
        } catch {
            throw WireGuardDeviceError(error)
        }
    }

    /// Writes the name that the system has chosen for the interface into a file, from which wg-quick on macOS reads it.
    private static func writeNameFile(_ options: DaemonOptions, _ name: String) throws(WireGuardDeviceError) {
        guard let file = options.nameFile, options.tunDescriptor == nil, options.interfaceName == "utun" else { return }
        let descriptor = SystemCall.open(file, O_CREAT | O_TRUNC | O_WRONLY, mode: 0o400)
        guard descriptor >= 0 else {
            throw WireGuardDeviceError(.managementSocket(path: file, operation: "writing the name file"), errno: errno)
        }
        defer { close(descriptor) }
        let text = Array("\(name)\n".utf8)
        guard unsafe write(descriptor, text, text.count) == text.count else {
            throw WireGuardDeviceError(.managementSocket(path: file, operation: "writing the name file"), errno: errno)
        }
    }

    /// Runs the device until a signal ends it, or until the interface or the socket is removed.
    private static func serve(
        _ tun: any TunDevice, _ socket: ManagementSocket, _ options: DaemonOptions
    ) throws(WireGuardDeviceError) {
        for failure in Privileges.reduce() { Output.error("warning: \(failure)") }
        // Block the signals before threads are started: they inherit the mask, so that only this thread receives the
        // signals.
        let signals = Signals.block()
        var deviceOptions = WireGuardDevice.Options(budget: options.budget)
        deviceOptions.layout = options.layout
        let level = options.logLevel
        let name = options.interfaceName
        deviceOptions.log = { messageLevel, message in
            switch level {
            case .silent: break
            case .error: if messageLevel == .error { Output.error("(\(name)) \(message)") }
            case .verbose: Output.error("(\(name)) \(message)")
            }
        }
        let cipher = "(\(name)) \(TransportAEAD.summary)"
        if level == .verbose { Output.error(cipher) }
        let device = try WireGuardDevice(tun: tun, network: SystemDatagramNetwork(), options: deviceOptions)
        device.onClose { _ in Signals.raiseTermination() }
        do throws(WireGuardDeviceError) {
            try device.start()
            try device.serveUAPI(on: socket)
        } catch {
            device.close()
            throw error
        }
        reportReady(options)
        ProgramPages.release()
        signals.wait {
            Output.error("(\(name)) \(device.statistics)")
            Output.error(cipher)
        }
        device.close()
        if level == .verbose { Output.error("(\(name)) \(device.statistics)") }
        if case .failed(let error)? = device.closeReason {
            throw WireGuardDeviceError(error)
        }
    }

    private static func reportReady(_ options: DaemonOptions) {
        guard let descriptor = options.readyDescriptor else { return }
        var byte: UInt8 = 1
        _ = unsafe write(descriptor, &byte, 1)
        close(descriptor)
    }
}

/// Writes lines to standard output and standard error.
enum Output {
    static func line(_ text: String) { write(text, to: 1) }
    static func error(_ text: String) { write(text, to: 2) }

    private static func write(_ text: String, to descriptor: Int32) {
        SystemCall.writeAll(descriptor, Array((text + "\n").utf8))
    }
}
