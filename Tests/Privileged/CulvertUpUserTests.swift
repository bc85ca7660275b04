// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        @Suite("By users other than root", .timeLimit(.minutes(5)))
        struct UserTests {
            @Test(
                "A user in the profile may query the tunnel, read its log and stop it, and no more; other users may not"
            )
            func permitted() throws {
                let scene = try CulvertUpScene()
                let folder = scene.files.path + "/culvert"
                let file = try scene.writeFile()
                let nobody = try scene.run(
                    "profile", "add", file, "--directory", folder, "--allow-user", "no such user")
                #expect(nobody.status == 2 && nobody.output.contains("there is no user 'no such user'"), "\(nobody)")
                try scene.succeed("profile", "add", file, "--directory", folder, "--allow-user", "65534")
                #expect(try scene.succeed("profile", "list", "--directory", folder, "--json").contains(#""65534""#))
                try scene.succeed("up", scene.name, "--directory", folder)
                func run(_ user: Int, _ arguments: String...) throws -> CommandResult {
                    let command = scene.command(arguments)
                    let place = try #require(command.firstIndex(of: "env"))
                    let identity = ["setpriv", "--reuid=\(user)", "--regid=\(user)", "--clear-groups"]
                    return try PrivilegedTests.runAllowingFailure(
                        Array(command[..<place] + identity + command[place...]))
                }

                let status = try run(65_534, "status", scene.name)
                #expect(status.status == 0 && status.output.contains("connected"), "\(status)")
                #expect(!status.output.contains(scene.privateKey))
                let log = try run(65_534, "log", scene.name)
                #expect(log.status == 0 && log.output.contains("tunnel connected"), "\(log)")
                let line = try run(65_534, "log", scene.name, "--lines", "1", "--json")
                #expect(line.status == 0 && line.output.split(separator: "\n").count == 1, "\(line)")
                #expect(line.output.contains(#""origin":"daemon""#))
                let reload = try run(65_534, "reload", scene.name)
                #expect(reload.status == 4 && reload.output.contains("may not reload"), "\(reload)")
                // These users may neither list the folder nor take its lock.
                #expect(try run(65_534, "status").status == 4)
                for arguments in [["status", scene.name], ["log", scene.name], ["down", scene.name]] {
                    let other = try run(65_533, arguments[0], arguments[1])
                    #expect(other.output.contains("may not control the tunnel"), "\(other)")
                    #expect((other.status == 4) == (arguments[0] != "status"), "\(other)")
                }
                try scene.ping()
                let mode = try FileManager.default.attributesOfItem(atPath: scene.runtime.path)
                #expect(mode[.posixPermissions] as? Int == 0o711)

                let down = try run(65_534, "down", scene.name)
                #expect(down.status == 0 && down.output.contains("down; it was connected"), "\(down)")
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }
        }
    }
#endif
