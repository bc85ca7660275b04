// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Synchronization
    import TunnelIO

    /// A network namespace of a test, with its loopback interface up; deleted when this object is released.
    ///
    /// Every device of a test is in such a namespace, so that nothing remains and tests do not interfere.
    final class Namespace: Sendable {
        /// The name for ip(8), unique on this machine.
        let name: String
        private let isDeleted = Mutex(false)
        private static let number = Atomic<Int>(0)

        /// Makes a namespace.
        init() throws {
            if !Privileged.missing.isEmpty {
                throw CommandFailure(description: "missing: \(Privileged.missing.joined(separator: ", "))")
            }
            let number = Self.number.wrappingAdd(1, ordering: .relaxed).newValue
            name = "cvt\(getpid())-\(number)"
            try PrivilegedTests.run(["ip", "netns", "add", name])
            try run("ip", "link", "set", "lo", "up")
        }

        deinit {
            delete()
        }

        /// Deletes the namespace and its contents. It may be called repeatedly.
        func delete() {
            let isFirst = isDeleted.withLock { isDeleted in
                defer { isDeleted = true }
                return !isDeleted
            }
            if isFirst { _ = try? PrivilegedTests.runAllowingFailure(["ip", "netns", "delete", name]) }
        }

        /// Runs a command in the namespace, as ``run(_:deadline:)`` does.
        @discardableResult
        func run(_ arguments: String..., deadline: Duration = Privileged.patience) throws -> CommandResult {
            try PrivilegedTests.run(inside(arguments), deadline: deadline)
        }

        /// Runs a command in the namespace and accepts any status.
        func runAllowingFailure(_ arguments: String..., deadline: Duration = Privileged.patience) throws
            -> CommandResult
        {
            try PrivilegedTests.runAllowingFailure(inside(arguments), deadline: deadline)
        }

        /// Starts a command in the namespace, concurrently with the test.
        func start(_ arguments: String...) throws -> SpawnedProcess {
            try SpawnedProcess(inside(arguments))
        }

        private func inside(_ arguments: [String]) -> [String] {
            ["ip", "netns", "exec", name] + arguments
        }

        /// Returns the namespace's tracked connections of an address.
        func connections(of address: String) throws -> [Substring] {
            try ["ipv4", "ipv6"].flatMap { family in
                try run("conntrack", "-L", "-f", family).output.split(separator: "\n")
                    .filter { $0.split(separator: " ").contains { $0.hasSuffix("=\(address)") } }
            }
        }

        /// Runs `body` on a thread in the namespace: its devices and sockets belong to the namespace.
        func perform<Result>(_ body: () throws -> Result) throws -> Result {
            let namespace = try NetworkNamespace(path: "/run/netns/\(name)")
            return try namespace.run { Swift.Result { try body() } }.get()
        }
    }
#endif
