// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import Testing

@testable import PacketTunnel

/// A directory that is removed in deinit.
final class StoreDirectory: Sendable {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.appendingPathComponent("culvert-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func mode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: "\(path)/\(name)")[.posixPermissions] as? Int
    }

    func setMode(_ mode: Int, _ name: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: "\(path)/\(name)")
    }

    /// The contents of all files in it.
    func everything() throws -> Data {
        try FileManager.default.subpathsOfDirectory(atPath: path).reduce(into: Data()) { data, name in
            data += FileManager.default.contents(atPath: "\(path)/\(name)") ?? Data()
        }
    }
}

func code(_ body: () async throws -> Void) async -> TunnelError.Code? {
    do {
        try await body()
        return nil
    } catch {
        return (error as? TunnelError)?.code
    }
}

@Suite("Secret stores")
struct SecretStoreTests {
    @Test("Secret stores keep, replace and forget secrets", arguments: [true, false])
    func roundTrip(_ inFiles: Bool) async throws {
        let scratch = try StoreDirectory()
        let store: any SecretStore =
            inFiles ? try FileSecretStore(path: scratch.path + "/a/secrets") : MemorySecretStore()
        #expect(try await store.names(of: "p") == [])
        #expect(await code { _ = try await store.read("key", of: "p") } == .secretUnavailable)
        try await store.write(SecretBytes([1, 2, 3]), "key", of: "p")
        try await store.write(SecretBytes([]), "empty", of: "p")
        try await store.write(SecretBytes([9]), "key", of: "q")
        #expect(try await store.read("key", of: "p").bytes == [1, 2, 3])
        #expect(try await store.read("empty", of: "p").count == 0)
        try await store.write(SecretBytes([4]), "key", of: "p")
        #expect(try await store.read("key", of: "p").bytes == [4])
        #expect(try await store.names(of: "p") == ["empty", "key"])
        try await store.remove("empty", of: "p")
        try await store.remove("empty", of: "p")
        #expect(try await store.names(of: "p") == ["key"])
        try await store.removeAll(of: "p")
        try await store.removeAll(of: "p")
        #expect(try await store.names(of: "p") == [])
        #expect(try await store.read("key", of: "q").bytes == [9])
    }

    @Test("Only the owner can access files and directories")
    func modes() async throws {
        let scratch = try StoreDirectory()
        let store = try FileSecretStore(path: scratch.path + "/secrets")
        try await store.write(SecretBytes([1]), "key", of: "p")
        #expect(try scratch.mode("secrets") == 0o700)
        #expect(try scratch.mode("secrets/p") == 0o700)
        #expect(try scratch.mode("secrets/p/key") == 0o600)
    }

    @Test("A file that other users can read or change is refused", arguments: [0o640, 0o604, 0o622, 0o660])
    func wideFile(_ mode: Int) async throws {
        let scratch = try StoreDirectory()
        let store = try FileSecretStore(path: scratch.path + "/secrets")
        try await store.write(SecretBytes([1]), "key", of: "p")
        try scratch.setMode(mode, "secrets/p/key")
        let error = await #expect(throws: TunnelError.self) { _ = try await store.read("key", of: "p") }
        #expect(error?.code == .permissionDenied)
        #expect(error?.fix.contains("chmod 600") == true)
        // Writing it again corrects the mode.
        try await store.write(SecretBytes([2]), "key", of: "p")
        #expect(try await store.read("key", of: "p").bytes == [2])
    }

    @Test("A directory that other users may enter is refused", arguments: [0o750, 0o701, 0o777])
    func wideDirectory(_ mode: Int) async throws {
        let scratch = try StoreDirectory()
        let path = scratch.path + "/secrets"
        let store = try FileSecretStore(path: path)
        try await store.write(SecretBytes([1]), "key", of: "p")
        try scratch.setMode(mode, "secrets/p")
        #expect(await code { _ = try await store.read("key", of: "p") } == .permissionDenied)
        #expect(await code { try await store.write(SecretBytes([1]), "key", of: "p") } == .permissionDenied)
        try scratch.setMode(mode, "secrets")
        #expect(await code { _ = try FileSecretStore(path: path) } == .permissionDenied)
    }

    @Test("Links are not followed, and pipes not waited for")
    func links() async throws {
        let scratch = try StoreDirectory()
        let store = try FileSecretStore(path: scratch.path + "/secrets")
        try await store.write(SecretBytes([1]), "key", of: "p")
        let files = FileManager.default
        try files.createSymbolicLink(
            atPath: scratch.path + "/secrets/p/link", withDestinationPath: scratch.path + "/secrets/p/key")
        try files.createSymbolicLink(
            atPath: scratch.path + "/secrets/q", withDestinationPath: scratch.path + "/secrets/p")
        try files.createSymbolicLink(atPath: scratch.path + "/other", withDestinationPath: scratch.path + "/secrets")
        #expect(unsafe mkfifo(scratch.path + "/secrets/p/pipe", 0o600) == 0)
        #expect(await code { _ = try await store.read("link", of: "p") } == .storage)
        #expect(await code { _ = try await store.read("key", of: "q") } == .storage)
        #expect(await code { _ = try await store.read("pipe", of: "p") } == .storage)
        #expect(await code { _ = try FileSecretStore(path: scratch.path + "/other") } == .storage)
    }

    @Test(
        "Files of another user are refused",
        .enabled(if: geteuid() == 0, "needs root, to give a file to another user"))
    func owner() async throws {
        let scratch = try StoreDirectory()
        let store = try FileSecretStore(path: scratch.path + "/secrets")
        try await store.write(SecretBytes([1]), "key", of: "p")
        #expect(unsafe chown(scratch.path + "/secrets/p/key", 12_345, 12_345) == 0)
        #expect(await code { _ = try await store.read("key", of: "p") } == .permissionDenied)
    }

    @Test(
        "Invalid names are refused",
        arguments: ["", ".", "..", "a/b", "../x", ".hidden", "a b", "a\u{0}b", String(repeating: "a", count: 129)])
    func names(_ name: String) async throws {
        let scratch = try StoreDirectory()
        let store = try FileSecretStore(path: scratch.path + "/secrets")
        #expect(await code { try await store.write(SecretBytes([1]), name, of: "p") } == .storage)
        #expect(await code { try await store.write(SecretBytes([1]), "key", of: name) } == .storage)
        #expect(await code { _ = try await store.read(name, of: "p") } != nil)
    }

    @Test("A writer that died leaves nothing that counts")
    func leftovers() async throws {
        let scratch = try StoreDirectory()
        let store = try FileSecretStore(path: scratch.path + "/secrets")
        try await store.write(SecretBytes([1]), "key", of: "p")
        #expect(FileManager.default.createFile(atPath: scratch.path + "/secrets/p/.key.abc", contents: Data([7])))
        #expect(try await store.names(of: "p") == ["key"])
        try await store.removeAll(of: "p")
        #expect(!FileManager.default.fileExists(atPath: scratch.path + "/secrets/p"))
    }

    @Test("Secrets do not print")
    func description() {
        #expect("\(SecretBytes(Array("hunter2".utf8)))" == "SecretBytes(7 bytes)")
        #expect(!String(reflecting: SecretBytes([65, 66, 67])).contains("ABC"))
    }
}

@Suite("Profile stores")
struct ProfileStoreTests {
    static let profile = TunnelProfile(
        name: "Home", provider: "wireguard", serverAddress: "vpn.example",
        configuration: .object(["peers": .array([.string("a"), .integer(5), .number(0.5), .null, .bool(true)])]),
        leakPolicy: .everything, onDemand: .always, isOnDemandEnabled: true)

    @Test("Profile stores keep, replace and forget profiles", arguments: [true, false])
    func roundTrip(_ inFiles: Bool) async throws {
        let scratch = try StoreDirectory()
        let store: any ProfileStore = inFiles ? try FileProfileStore(path: scratch.path) : MemoryProfileStore()
        #expect(try await store.loadAll() == LoadedProfiles(profiles: []))
        var profile = Self.profile
        try await store.save(profile)
        #expect(try await store.loadAll() == LoadedProfiles(profiles: [profile]))
        profile.name = "Office"
        try await store.save(profile)
        #expect(try await store.loadAll() == LoadedProfiles(profiles: [profile]))
        try await store.remove(profile.id)
        try await store.remove(profile.id)
        #expect(try await store.loadAll().profiles.isEmpty)
    }

    @Test("An invalid profile file does not hide the others")
    func badFiles() async throws {
        let scratch = try StoreDirectory()
        let store = try FileProfileStore(path: scratch.path)
        try await store.save(Self.profile)
        let good = try #require(FileManager.default.contents(atPath: "\(scratch.path)/\(Self.profile.id).json"))
        let files: [String: Data] = [
            "broken.json": Data("{".utf8), "renamed.json": good, "note.txt": Data("x".utf8), ".hidden.json": Data(),
            "\(String(repeating: "0", count: 32)).json": Data(
                #"{"id":"00000000000000000000000000000000","name":" ","provider":"../x"}"#.utf8),
        ]
        for (name, data) in files {
            let path = "\(scratch.path)/\(name)"
            #expect(FileManager.default.createFile(atPath: path, contents: data))
            try scratch.setMode(0o644, name)
        }
        let loaded = try await store.loadAll()
        #expect(loaded.profiles == [Self.profile])
        #expect(loaded.errors.count == 3)
        #expect(loaded.errors.flatMap(\.problems).map(\.field) == ["name", "provider"])
        #expect(await code { try await store.remove("../../etc/passwd") } == .profileNotFound)
    }

    @Test("A file that other users may write is refused")
    func modes() async throws {
        let scratch = try StoreDirectory()
        let store = try FileProfileStore(path: scratch.path)
        try await store.save(Self.profile)
        #expect(try scratch.mode("\(Self.profile.id).json") == 0o644)
        try scratch.setMode(0o666, "\(Self.profile.id).json")
        let loaded = try await store.loadAll()
        #expect(loaded.profiles.isEmpty)
        #expect(loaded.errors.map(\.code) == [.permissionDenied])
    }

    @Test("Profiles have defaults for omitted members, and refuse an invalid ID")
    func coding() throws {
        let short = #"{"id":"00000000000000000000000000000abc","name":"n","provider":"p"}"#
        let profile = try JSONDecoder().decode(TunnelProfile.self, from: Data(short.utf8))
        #expect(profile.isEnabled && !profile.isOnDemandEnabled && profile.leakPolicy == .routeBased)
        #expect(profile.configuration == .object([:]))
        for id in ["", "ABC", "../00000000000000000000000000000"] {
            #expect(throws: DecodingError.self) {
                try JSONDecoder().decode(
                    TunnelProfile.self, from: Data(#"{"id":"\#(id)","name":"n","provider":"p"}"#.utf8))
            }
        }
        #expect(Set((0..<100).map { _ in TunnelProfile(name: "n", provider: "p").id }).count == 100)
    }

    @Test("Configurations are any JSON, and decode as their type")
    func configuration() throws {
        struct Configuration: Codable, Equatable {
            var server: String
            var port: UInt16
            var ratio: Double
            var routes: [IPPrefix]
        }
        let configuration = Configuration(server: "s/\u{e9}", port: 51_820, ratio: 0.25, routes: [.allIPv4])
        let value = try JSONValue(encoding: configuration)
        #expect(try value.decode(Configuration.self) == configuration)
        #expect(throws: TunnelError.self) { try JSONValue.object([:]).decode(Configuration.self) }
        #expect(throws: TunnelError.self) { try JSONValue.number(.infinity).text() }
    }
}
