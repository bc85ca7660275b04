// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import PacketTunnelLinux
    import TunnelSystem

    extension ChildProcess {
        /// The number of the descriptor that a tool may report through.
        static let reportNumber: Int32 = 9

        /// Starts a tool, which is looked for in `PATH` unless its name has a slash.
        /// - Parameters:
        ///   - environment: added to what it gets of this process's.
        ///   - report: a descriptor that the tool gets as number ``reportNumber``.
        /// - Throws: `DemoFailure` when it cannot be started.
        convenience init(
            _ arguments: [String], environment: [String] = [], report: Int32? = nil
        ) throws(DemoFailure) {
            let inherited = ["PATH", "HOME", "LANG"].compactMap { name in
                StandardStream.environment(name).map { "\(name)=\($0)" }
            }
            do throws(SystemError) {
                // Numbers and words of the tools are read, so they are asked for in one language.
                try self.init(
                    arguments.first ?? "", isSearched: true, arguments: arguments,
                    environment: inherited + ["LC_ALL=C"] + environment,
                    descriptors: report.map { [Self.reportNumber: $0] } ?? [:])
            } catch {
                throw DemoFailure("cannot \(error.operation): \(SystemError.words(error.errno))")
            }
        }

        /// Waits until the tool has ended.
        /// - Parameter interruption: ends the wait when it polls readable.
        /// - Throws: `DemoFailure` when the deadline passes or the user interrupts. The tool runs on then.
        func outcome(until deadline: Int64, interruption: Int32?) throws(DemoFailure) -> Outcome {
            try wait(until: deadline, interruption: interruption).outcome()
        }
    }

    extension ChildProcess.Ending {
        /// What came of the program.
        func outcome() throws(DemoFailure) -> ChildProcess.Outcome {
            switch self {
            case .ended(let outcome): return outcome
            case .interrupted: throw .interrupted
            case .timedOut: throw DemoFailure("the deadline passed")
            }
        }
    }
#endif
