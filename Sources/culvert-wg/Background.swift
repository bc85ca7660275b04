// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem
import WireGuardDevice

/// Continues in the background by starting this program again, because a process with threads must not fork.
enum Background {
    /// The child's descriptors of the TUN device, the management socket and the pipe for its report.
    private static let tunNumber: Int32 = 3
    private static let managementNumber: Int32 = 4
    private static let readyNumber: Int32 = 5

    /// Starts the child with both descriptors, and returns when the child reports that it serves.
    static func spawn(
        tun: Int32, management: Int32, _ options: DaemonOptions
    ) throws(WireGuardDeviceError) {
        let report: DescriptorPipe
        let child: pid_t
        do throws(SystemError) {
            report = try DescriptorPipe()
            child = try start([tun, management, report.writer.number], options)
        } catch {
            throw failure(error.operation, error.errno)
        }
        // Close this copy of the writing end: otherwise, the pipe would not end when the child closes its copy.
        report.writer.close()
        var byte: UInt8 = 0
        let count = unsafe withUnsafeMutableBytes(of: &byte) { unsafe SystemCall.read(report.reader.number, into: $0) }
        report.reader.close()
        if count == 1 { return }
        // The child ended without a report. It has logged the reason if logging is on.
        var status: Int32 = 0
        unsafe _ = waitpid(child, &status, 0)
        throw failure("the background process ended; run with LOG_LEVEL=verbose -f to see why", ECHILD)
    }

    private static func start(_ descriptors: [Int32], _ options: DaemonOptions) throws(SystemError) -> pid_t {
        let setup = SpawnSetup(.ownSession)
        // Copy the descriptors to numbers above their targets, so that moving one does not overwrite another.
        var copies: [Int32] = []
        defer { for copy in copies { SystemCall.close(copy) } }
        for (descriptor, number) in zip(descriptors, [tunNumber, managementNumber, readyNumber]) {
            let copy = try SystemCall.check("dup") { fcntl(descriptor, F_DUPFD_CLOEXEC, 16) }
            copies.append(copy)
            setup.pass(copy, as: number)
        }
        setup.openNull(0, forWriting: false)
        for output in [1, 2] as [Int32] {
            if options.keepsOutput { setup.keep(output) } else { setup.openNull(output, forWriting: true) }
        }

        let own: [(DaemonOptions.Variable, Int32)] = [
            (.tunDescriptor, tunNumber), (.uapiDescriptor, managementNumber), (.foreground, 1),
            (.readyDescriptor, readyNumber),
        ]
        let kept = ProcessEnvironment.assignments(["PATH"] + DaemonOptions.Variable.inherited.map(\.rawValue))
        return try setup.start(
            SpawnPlatform.ownProgram,
            arguments: [CommandLine.arguments.first ?? "culvert-wg", options.interfaceName],
            environment: own.map { "\($0.rawValue)=\($1)" }
                + ["\(DaemonOptions.Variable.aead.rawValue)=\(options.aead.rawValue)"] + kept)
    }

    private static func failure(_ operation: String, _ error: Int32) -> WireGuardDeviceError {
        WireGuardDeviceError(.managementSocket(path: "background process", operation: operation), errno: error)
    }
}
