// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardDevice

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Going to the background by starting this program anew: a process with threads must not fork.
enum Background {
    /// Where the child finds the TUN device, the management socket and the pipe for its report.
    private static let tunNumber: Int32 = 3
    private static let managementNumber: Int32 = 4
    private static let readyNumber: Int32 = 5

    /// Starts the child with both descriptors and returns when it reports that it serves.
    static func spawn(
        tun: Int32, management: Int32, _ options: DaemonOptions
    ) throws(WireGuardDeviceError) {
        var pipeEnds: (Int32, Int32) = (-1, -1)
        let made = unsafe withUnsafeMutableBytes(of: &pipeEnds) { raw in
            unsafe pipe(raw.bindMemory(to: Int32.self).baseAddress)
        }
        guard made == 0 else { throw failure("pipe", errno) }
        defer { close(pipeEnds.0) }
        // The child has no use for this end, and would never see it close.
        _ = fcntl(pipeEnds.0, F_SETFD, FD_CLOEXEC)
        // Above the numbers that they are moved to, so that none overwrites another.
        let copies = [tun, management, pipeEnds.1].map { fcntl($0, F_DUPFD_CLOEXEC, 16) }
        close(pipeEnds.1)
        guard copies.allSatisfy({ $0 >= 0 }) else { throw failure("dup", errno) }

        let child = try start(copies, options)
        for descriptor in copies { close(descriptor) }

        var byte: UInt8 = 0
        while true {
            let count = unsafe read(pipeEnds.0, &byte, 1)
            if count == 1 { return }
            if count < 0, errno == EINTR { continue }
            break
        }
        // The pipe closed without a report: the child has said why, if it was asked to log.
        var status: Int32 = 0
        unsafe _ = waitpid(child, &status, 0)
        throw failure("the background process ended; run with LOG_LEVEL=verbose -f to see why", ECHILD)
    }

    private static func start(
        _ descriptors: [Int32], _ options: DaemonOptions
    ) throws(WireGuardDeviceError) -> pid_t {
        var actions = SpawnActions()
        defer { actions.destroy() }
        let numbers = [tunNumber, managementNumber, readyNumber]
        for (descriptor, number) in zip(descriptors, numbers) { actions.move(descriptor, to: number) }
        actions.openNull(0, forWriting: false)
        for output in [1, 2] as [Int32] {
            if options.keepsOutput { actions.keep(output) } else { actions.openNull(output, forWriting: true) }
        }

        let inherited = [
            "WG_TUN_FD=\(tunNumber)", "WG_UAPI_FD=\(managementNumber)", "WG_PROCESS_FOREGROUND=1",
            "CULVERT_READY_FD=\(readyNumber)",
        ]
        let kept =
            (["LOG_LEVEL", "PATH", DaemonOptions.layoutVariable, DaemonOptions.memoryVariable]
            + DaemonOptions.offloadSwitches).compactMap {
                name in
                Daemon.environment(name).map { "\(name)=\($0)" }
            }
        let result = actions.spawn(
            path: executablePath, arguments: [CommandLine.arguments.first ?? "culvert-wg", options.interfaceName],
            environment: inherited + kept)
        guard result.error == 0 else { throw failure("posix_spawn", result.error) }
        return result.child
    }

    private static func failure(_ operation: String, _ error: Int32) -> WireGuardDeviceError {
        WireGuardDeviceError(.managementSocket(path: "background process", operation: operation), errno: error)
    }
}
