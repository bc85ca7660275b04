// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux) || os(macOS)
    import Foundation
    package import TunnelSystem

    /// A program that ran to its end.
    ///
    /// Programs that other tests start at the same time do not inherit its pipe. They would inherit that of
    /// Foundation's `Process`, and the reader would then also wait for their end.
    package struct FinishedProgram {
        /// The exit status, or 128 plus the signal that ended the program.
        package let status: Int32
        /// The text that the program wrote to the stream.
        package let output: String

        /// Runs a program with this process's environment.
        ///
        /// - Parameters:
        ///   - stream: The stream that is read: 1 is the standard output, 2 the standard error. The other one is discarded.
        /// - Throws: ``SystemError`` if the program cannot be started.
        package init(_ program: String, _ arguments: [String], reading stream: Int32 = 1) throws(SystemError) {
            let pipe = try DescriptorPipe()
            let setup = SpawnSetup(.ownGroup)
            setup.openNull(0, forWriting: false)
            setup.openNull(3 - stream, forWriting: true)
            setup.pass(pipe.writer.number, as: stream)
            let process = try setup.start(
                program, arguments: [program] + arguments,
                environment: ProcessInfo.processInfo.environment.map { "\($0)=\($1)" })
            pipe.writer.close()
            output = String(decoding: SystemCall.readAll(pipe.reader.number, limit: 1 << 24) ?? [], as: UTF8.self)
            pipe.reader.close()
            var status: Int32 = 0
            while unsafe waitpid(process, &status, 0) < 0, errno == EINTR {}
            let signal = status & 0x7f
            self.status = signal == 0 ? (status >> 8) & 0xff : 128 + signal
        }
    }
#endif
