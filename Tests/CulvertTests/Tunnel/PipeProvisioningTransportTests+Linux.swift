// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineTesting
    import Foundation
    import Logging
    import PacketTunnel
    import PacketTunnelLinux
    import Provisioning
    import Testing

    @testable import culvert

    @Suite("Requests by a separate process", .timeLimit(.minutes(1)))
    struct PipeProvisioningTransportTests {
        /// As the program does: a process may end before it has read its request.
        init() { _ = signal(SIGPIPE, SIG_IGN) }

        /// A folder with a script in the place of culvert-enroll.
        private struct Scene {
            let folder = FileManager.default.temporaryDirectory.appending(path: "culvert-pipe-\(UUID().uuidString)")

            init(_ script: String) throws {
                try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
                try PlacedProgram.write(
                    "#!/bin/sh\n\(script)\n", to: folder.appending(path: "culvert-enroll").path)
            }

            func remove() { try? FileManager.default.removeItem(at: folder) }

            func send(
                _ change: (inout ProvisioningRequest) -> Void = { _ in }
            ) async throws(ProvisioningTransportError) -> ProvisioningReply {
                let folders = ProgramFolders(executable: folder.path + "/culvert", path: nil, isRoot: true)
                let scope = ProgramScope(
                    tunnel: "t", commands: [PipeProvisioningTransport.command(folders)].compactMap(\.self), file: nil,
                    bindsLowPort: false)
                guard let programs = try? ProgramClient(servedHere: scope) else { throw .unsupported("no sockets") }
                var transport = PipeProvisioningTransport(
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, programs: programs)
                transport.grace = .milliseconds(500)
                let trust = ServerTrust.authorities("PEM")
                var request = ProvisioningRequest(
                    server: ProvisioningServer(name: "vpn.example.com", port: 8443, trust: trust), method: .post,
                    target: "/v1/enrolments", bearer: SecretBytes(Array("ci_secret".utf8)), body: [1],
                    timeout: .milliseconds(500))
                change(&request)
                return try await transport.send(request)
            }
        }

        @Test("The request is one line on standard input, never an argument, and the reply one line")
        func exchange() async throws {
            let scene = try Scene(
                #"""
                read -r line
                printf '%s %s' "$*" "$line" > "$(dirname "$0")/seen"
                echo 'a warning of something else' >&2
                echo '{"status":201,"body":"e30=","notes":["a note"]}'
                """#)
            defer { scene.remove() }
            let reply = try await scene.send()
            #expect(reply.status == 201 && reply.body == Array("{}".utf8))
            let seen = try String(contentsOf: scene.folder.appending(path: "seen"), encoding: .utf8)
            #expect(seen.hasPrefix("transport {"))
            #expect(PipeMessages.request(Array(seen.dropFirst("transport ".count).utf8))?.body == [1])
        }

        @Test("An error of the transport is returned, and an invalid answer is described")
        func errors() async throws {
            let refused = try Scene(#"echo '{"error":{"untrusted":{"_0":"another key"}},"notes":[]}'"#)
            defer { refused.remove() }
            await #expect(throws: ProvisioningTransportError.untrusted("another key")) { try await refused.send() }
            for script in ["echo hello", "true", "echo broken >&2; exit 3", "kill -9 $$", "yes"] {
                let scene = try Scene(script)
                defer { scene.remove() }
                await #expect(throws: ProvisioningTransportError.self, "\(script)") { try await scene.send() }
            }
            let missing = try Scene("true")
            missing.remove()
            let error = await #expect(throws: ProvisioningTransportError.self) { try await missing.send() }
            guard case .unsupported(let reason) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(reason.contains("culvert-enroll is not installed"))
            let good = try Scene("true")
            defer { good.remove() }
            let long = await #expect(throws: ProvisioningTransportError.self) {
                try await good.send { $0.body = [UInt8](repeating: 0, count: PipeMessages.requestLimit) }
            }
            guard case .unsupported = long else {
                Issue.record("\(String(describing: long))")
                return
            }
        }

        @Test("A process that does not answer is killed after the timeout or when the task is cancelled")
        func killed() async throws {
            let scene = try Scene("exec sleep 1000")
            defer { scene.remove() }
            let error = await #expect(throws: ProvisioningTransportError.self) { try await scene.send() }
            guard case .unreachable = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            let began = ContinuousClock.now
            let task = Task { try await scene.send { $0.timeout = .seconds(500) } }
            task.cancel()
            _ = await task.result
            #expect(ContinuousClock.now - began < .seconds(30))
        }
    }
#endif
