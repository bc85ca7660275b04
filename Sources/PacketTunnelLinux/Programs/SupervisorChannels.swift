// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
package import TunnelSystem

/// A client's ends of the socket and the pipe of a supervisor (``ProgramSupervisor``). The process that starts the supervisor may
/// pass them to the client's process, so that both processes start at the same time.
package struct SupervisorChannels: Sendable {
    /// The socket on which the sockets of servers arrive.
    package let control: SharedDescriptor
    /// The pipe from which the scope is read.
    package let scope: SharedDescriptor

    private init(_ control: SharedDescriptor, _ scope: SharedDescriptor) {
        (self.control, self.scope) = (control, scope)
    }

    /// Takes over the descriptors with these numbers. No program inherits them.
    package init(control: Int32, scope: Int32) {
        for number in [control, scope] { _ = fcntl(number, F_SETFD, FD_CLOEXEC) }
        self.init(SharedDescriptor(OwnedDescriptor(control)), SharedDescriptor(OwnedDescriptor(scope)))
    }

    /// Starts a supervisor process, which has its ends as ``ProgramSupervisor/controlNumber`` and
    /// ``ProgramSupervisor/reportNumber``.
    /// - Parameter input: Its standard input.
    package static func start(
        program: String, arguments: [String], environment: [String], input: [UInt8] = []
    ) throws(SystemError) -> SupervisorChannels {
        let setup = SpawnSetup(.ownSession)
        let file = try SystemProgram.memoryFile(input)
        setup.pass(file.number, as: 0)
        for number in [1, 2] as [Int32] { setup.openNull(number, forWriting: true) }
        let (here, there) = try ProgramClient.pair()
        let pipe = try DescriptorPipe()
        setup.pass(there.number, as: ProgramSupervisor.controlNumber)
        setup.pass(pipe.writer.number, as: ProgramSupervisor.reportNumber)
        _ = try setup.start(program, arguments: arguments, environment: environment)
        withExtendedLifetime(file) {}
        there.close()
        pipe.writer.close()
        return SupervisorChannels(here, pipe.reader)
    }

    /// Closes both. The supervisor ends if no other process has them.
    package func close() {
        control.close()
        scope.close()
    }

    /// Reads everything that the supervisor writes to the pipe before it closes the pipe or the deadline passes.
    func readScope(until deadline: Int64) -> [UInt8] {
        defer { scope.close() }
        var text: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while text.count <= ProgramScope.mostBytes, ChildProcess.ready([scope.number], until: deadline) != nil {
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe SystemCall.read(scope.number, into: $0) }
            guard count > 0 else { break }
            text += chunk[..<count]
        }
        return text
    }
}
