// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization
    import Testing
    import TunnelIO
    import TunnelSystem

    @testable import PacketTunnelLinux

    @Suite("Processes for programs that take each other's place", .timeLimit(.minutes(2)))
    struct ProgramRelayTests {
        private static let scope = ProgramScope(
            tunnel: "wg0", commands: [], file: "/proc/self/comm", bindsLowPort: false)

        /// A supervisor whose servers are threads of this process.
        private final class Supervisor: Sendable {
            let relay: ProgramRelay
            private let control: SharedDescriptor
            private let sockets = Mutex<[SharedDescriptor]>([])

            init() throws {
                _ = signal(SIGPIPE, SIG_IGN)
                let (here, there) = try ProgramClient.pair()
                (relay, control) = (ProgramRelay(here), there)
            }

            /// Starts a server.
            /// - Parameter isStopped: Whether it reads nothing.
            func start(isStopped: Bool = false) throws {
                var (ours, theirs): ([SharedDescriptor], [SharedDescriptor]) = ([], [])
                for _ in ProgramClient.Purpose.allCases {
                    let (here, there) = try ProgramClient.pair()
                    ours.append(here)
                    theirs.append(there)
                }
                #expect(unsafe ctunnel_send_descriptors(control.number, ours.map(\.number), Int32(ours.count)) == 0)
                let numbers = isStopped ? [] : theirs.map { dup($0.number) }
                if !isStopped {
                    _ = try LoopThread(name: "serve") { ProgramServer(ProgramRelayTests.scope).serve(numbers) }
                }
                sockets.withLock { $0 = theirs }
            }

            /// Ends the server.
            func kill() {
                sockets.withLock { sockets in
                    for socket in sockets { _ = shutdown(socket.number, 2) }
                    sockets = []
                }
            }

            func end() { control.close() }

            /// The next requests of the client, as bytes.
            func requests() -> [UInt8] {
                var bytes = [UInt8](repeating: 0, count: 16)
                let count = unsafe bytes.withUnsafeMutableBytes { unsafe SystemCall.read(control.number, into: $0) }
                return Array(bytes.prefix(max(0, count)))
            }
        }

        /// Starts a client whose supervisor is a shell script. The script's first argument is the scope as text.
        private func client(_ script: String) throws -> ProgramClient {
            let text = String(decoding: try Self.scope.text(), as: UTF8.self)
            return try ProgramClient(
                SupervisorChannels.start(
                    program: "/bin/sh", arguments: ["sh", "-c", script, "sh", text], environment: []))
        }

        @Test("A client has its scope once the supervisor has written it, before a server exists")
        func scope() throws {
            let client = try client("printf %s \"$1\" >&\(ProgramSupervisor.reportNumber)")
            #expect(client.scope == Self.scope)
            #expect(!isServed(client), "the supervisor has ended")
        }

        @Test(
            "A supervisor that fails, or ends without a complete scope, fails the start with an error number",
            arguments: [("printf 12 >&4", 12), ("exit 12", ECHILD), ("printf '{' >&4", ECHILD)])
        func noScope(_ script: String, _ errno: Int32) {
            #expect(throws: SystemError("start the process for programs", errno: errno)) { try client(script) }
        }

        private func isServed(_ client: ProgramClient) -> Bool { client.file() != nil }

        @Test("A request goes to the present server after any number of earlier ones have ended")
        func replaced() throws {
            let supervisor = try Supervisor()
            let client = ProgramClient(supervisor.relay, scope: Self.scope)
            try supervisor.start()
            #expect(isServed(client) && isServed(client))
            for count in 1...3 {
                for _ in 0..<count {
                    supervisor.kill()
                    try supervisor.start()
                }
                #expect(isServed(client), "\(count)")
            }
            supervisor.kill()
            supervisor.end()
            #expect(!isServed(client), "no server comes any more")
            #expect(throws: LinuxNetworkError.self) {
                try client.run(system: "nft", ["list", "tables"], input: [], seconds: 60, outputLimit: 10)
            }
        }

        @Test("A server that does not answer is reported, and its request is repeated by the next one")
        func stopped() throws {
            let supervisor = try Supervisor()
            let client = ProgramClient(supervisor.relay, scope: Self.scope, patience: 0)
            try supervisor.start(isStopped: true)
            let requests = Mutex<[UInt8]>([])
            let thread = try LoopThread(name: "supervise") {
                requests.withLock { $0 = supervisor.requests() }
                supervisor.kill()
                try? supervisor.start()
            }
            #expect(isServed(client))
            thread.join()
            #expect(requests.withLock { $0 } == [ProgramRelay.Request.check.rawValue])
        }

        @Test(
            "A request that is late has the server replaced, and a request that waits for its turn ends by its own deadline"
        )
        func late() throws {
            let supervisor = try Supervisor()
            let client = ProgramClient(supervisor.relay, scope: Self.scope, patience: 60)
            try supervisor.start(isStopped: true)
            let started = Latch()
            let thread = try LoopThread(name: "first") {
                started.open()
                _ = client.file()
            }
            started.wait()
            // The first request is sent, and its server is reported, while it has the turn.
            #expect(supervisor.requests() == [ProgramRelay.Request.check.rawValue])
            let start = LaneClock.now()
            let timeout = LinuxNetworkError(.programTimedOut(path: "nft", seconds: 1))
            #expect(throws: timeout) {
                try client.run(system: "nft", ["list", "tables"], input: [], seconds: 1, outputLimit: 10)
            }
            #expect(LaneClock.now() - start < 20 * LaneClock.nanosecondsPerSecond)
            supervisor.kill()
            try supervisor.start(isStopped: true)
            supervisor.kill()
            supervisor.end()
            thread.join()
            let impatient = try Supervisor()
            try impatient.start(isStopped: true)
            let other = ProgramClient(impatient.relay, scope: Self.scope, patience: 0)
            #expect(throws: timeout) {
                try other.run(system: "nft", ["list", "tables"], input: [], seconds: 1, outputLimit: 10)
            }
            var seen: [UInt8] = []
            while !seen.contains(ProgramRelay.Request.replace.rawValue) { seen += impatient.requests() }
            #expect(seen.last == ProgramRelay.Request.replace.rawValue)
        }

        @Test("A message with another number of descriptors ends the relay, and none of them stays open")
        func malformed() throws {
            let (here, there) = try ProgramClient.pair()
            let relay = ProgramRelay(here)
            let (end, given) = try ProgramClient.pair()
            #expect(unsafe ctunnel_send_descriptors(there.number, [given.number, given.number], 2) == 0)
            given.close()
            #expect(relay.sockets(after: 0, until: LaneClock.now() + LaneClock.nanosecondsPerSecond) == nil)
            #expect(relay.hasEnded)
            #expect(SystemCall.readAll(end.number, limit: 1) == [], "the other side is closed")
            #expect(unsafe ctunnel_send_descriptors(there.number, [], 0) == EINVAL)
        }
    }
#endif
