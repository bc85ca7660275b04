// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    @Suite(
        "culvert up with a gateway's login tunnel", .serialized, .enabled(if: Privileged.isAvailable),
        .timeLimit(.minutes(3)))
    struct LoginServerUpTests {
        private let password = "correct horse battery"

        private func scene(_ profilePassword: String) throws -> LoginGatewayScene {
            let scene = try LoginGatewayScene()
            try scene.initialize()
            try scene.addDefaultRoute()
            try scene.start()
            try scene.add("anna", password)
            try scene.addProfile("cred", login: "anna", password: profilePassword)
            return scene
        }

        private func expectNoInterface(_ scene: LoginGatewayScene) throws {
            try eventually("the interface is removed") {
                try scene.outside.runAllowingFailure("ip", "link", "show", "dev", "cred").status != 0
            }
        }

        @Test("A wrong password ends `culvert up` with status 7", arguments: [[], ["--foreground", "--no-wait"]])
        func refusedLogin(_ options: [String]) throws {
            let scene = try scene("wrong horse battery")
            let up = try scene.startUp("cred", options)
            let end = try up.wait(deadline: .seconds(120))
            #expect(end.status == 7, "\(end)")
            #expect(end.output.contains("refused the login"), "\(end)")
            #expect(!end.output.contains("wrong horse battery"))
            try expectNoInterface(scene)
        }

        @Test("A closed port ends `culvert up` with status 6, before its time is over, and the message names the port")
        func closedPort() throws {
            let scene = try scene(password)
            try scene.stop()
            let end = try scene.startUp("cred", ["--timeout", "600"]).wait(deadline: .seconds(120))
            #expect(end.status == 6, "\(end)")
            let server = "\(LoginGatewayScene.address):\(LoginGatewayScene.port)"
            #expect(end.output.contains("the UDP port of \(server) is closed"), "\(end)")
            try expectNoInterface(scene)
        }

        @Test("A session that the server ends, since its user was removed, ends `culvert up` with status 8")
        func endedSession() throws {
            let scene = try scene(password)
            let up = try scene.startUp("cred", ["--foreground", "--no-wait"])
            try eventually("packets pass through the tunnel", within: .seconds(60)) {
                guard up.isRunning else { throw CommandFailure(description: up.outputSoFar) }
                return try scene.outside.runAllowingFailure(
                    "ping", "-n", "-q", "-c", "1", "-W", "1", "10.66.0.1"
                ).status == 0
            }
            let removed = try scene.ask("user", "remove", "anna")
            #expect(removed.status == 0, "\(removed)")
            let end = try up.wait(deadline: .seconds(60))
            #expect(end.status == 8, "\(end)")
            #expect(end.output.contains("the server ended the session"), "\(end)")
            try expectNoInterface(scene)
            // The next start is a login of an unknown user.
            let again = try scene.startUp("cred", []).wait(deadline: .seconds(120))
            #expect(again.status == 7, "\(again)")
        }
    }
#endif
