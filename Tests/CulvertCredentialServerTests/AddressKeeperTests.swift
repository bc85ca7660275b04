// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineSupport
    import Foundation
    import Logging
    import NetworkAddresses
    import Synchronization
    import Testing
    import TunnelServer
    import TunnelSystem

    @testable import culvert_credential_server

    private let second: Int64 = 1_000_000_000

    @Suite("The file of addresses") struct AddressKeeperTests {
        /// A server's pools with their file, in a temporary folder.
        private final class World: Sendable {
            let directory: ServerDirectory
            let pools: Mutex<AddressPools>
            let revision = Mutex(0)
            let writes = Mutex(0)
            let isFull = Mutex(false)
            private let made: Mutex<AddressKeeper?> = Mutex(nil)
            private let path: String

            init(_ network: String = "10.66.0.1/16", rest: Duration = .seconds(3600)) throws {
                path = FileManager.default.temporaryDirectory.appending(path: "culvert-\(UUID().uuidString)").path
                directory = try ServerDirectory.make(path, ServerConfiguration())
                pools = Mutex(try AddressPools(servers: [InterfaceAddress(network)], rest: rest))
            }

            deinit { try? FileManager.default.removeItem(atPath: path) }

            func keeper() -> AddressKeeper {
                AddressKeeper(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }) {
                    [weak self] revision, isLast in
                    guard let self, case let present = self.revision.withLock({ $0 }), present != revision else {
                        return nil
                    }
                    return (present, self.pools.withLock { $0 }.file(at: 0, isLast: isLast))
                } store: { [weak self] (file) throws(CommandFailure) in
                    guard let self, !self.isFull.withLock({ $0 }) else { throw CommandFailure("the disk is full") }
                    self.writes.withLock { $0 += 1 }
                    try self.directory.write(file)
                }
            }

            func take(for login: String) throws -> [IPAddress] {
                revision.withLock { $0 += 1 }
                return try pools.withLock { try $0.take(for: login, at: 0) }
            }

            func give(back addresses: [IPAddress], of login: String, at now: Int64 = 0) {
                revision.withLock { $0 += 1 }
                pools.withLock { $0.give(back: addresses, of: login, at: now) }
            }

            /// The pools of a server that starts now, after the last one was killed.
            func restarted(rest: Duration = .seconds(3600)) throws -> (AddressPools, CommandFailure?) {
                let (file, problem) = try directory.addresses()
                var pools = try AddressPools(servers: [InterfaceAddress("10.66.0.1/16")], rest: rest)
                pools.restore(file, at: 0)
                return (pools, problem)
            }
        }

        @Test("A login needs no write if the file has its addresses, and after a crash no other user gets them")
        func crash() throws {
            let world = try World()
            let keeper = world.keeper()
            #expect(!keeper.isStored([.v4(10, 66, 0, 2)], of: "anna"))
            keeper.write()
            var owners: [IPAddress: String] = [:]
            for number in 0..<40 {
                let address = try #require(try world.take(for: "user\(number)").first)
                #expect(keeper.isStored([address], of: "user\(number)"), "\(address)")
                owners[address] = "user\(number)"
            }
            #expect(world.writes.withLock { $0 } == 1)
            // The server is killed here.
            var (pools, problem) = try world.restarted()
            #expect(problem == nil)
            for number in 0..<1000 {
                let address = try #require(try pools.take(for: "other\(number)", at: 0).first)
                #expect(owners[address] == nil, "\(address) was \(owners[address] ?? "")'s")
            }
        }

        @Test("After a crash all addresses of the file rest from the start on, and after a stop since their release")
        func rests() throws {
            for isLast in [false, true] {
                let world = try World()
                let keeper = world.keeper()
                let address = try world.take(for: "anna")
                // It was released half an hour ago.
                world.give(back: address, of: "anna", at: -1800 * second)
                keeper.write(isLast: isLast)
                // Anna may have been there again since the file was written.
                #expect(keeper.isStored(address, of: "anna") && !keeper.isStored(address, of: "ben"))
                var (pools, _) = try world.restarted()
                #expect(try pools.take(for: "anna", at: 0) == address)
                (pools, _) = try world.restarted()
                #expect((try pools.take(for: "ben", at: 1801 * second) == address) == isLast)
            }
        }

        @Test("A write that fails is tried again, and until then the login's address does not count as stored")
        func fails() throws {
            let world = try World()
            let keeper = world.keeper()
            let address = try world.take(for: "anna")
            world.isFull.withLock { $0 = true }
            keeper.write()
            #expect(!keeper.isStored(address, of: "anna"))
            world.isFull.withLock { $0 = false }
            keeper.write()
            #expect(keeper.isStored(address, of: "anna") && world.writes.withLock { $0 } == 1)
            keeper.write()
            #expect(world.writes.withLock { $0 } == 1)
        }

        @Test(
            "A damaged file is copied under a new name, and the file on disk has all addresses rest before the first write",
            arguments: ["{ damaged", #"{"version": 2, "addresses": []}"#])
        func unreadable(_ text: String) throws {
            let world = try World()
            let files = world.directory.files
            try files.write([1], to: AddressFile.unreadable(1))
            // The second start finds the same damage, as after a start that has failed in between.
            for _ in 0..<2 {
                try files.write(Array(text.utf8), to: AddressFile.name)
                let (_, problem) = try world.directory.addresses()
                #expect(try "\(#require(problem))".contains(AddressFile.unreadable(2)))
                #expect(try files.read(AddressFile.unreadable(1)) == [1])
                #expect(try files.read(AddressFile.unreadable(2)) == Array(text.utf8))
                #expect(try files.read(AddressFile.unreadable(3)) == nil)
            }
            // The server is killed here.
            var (first, none) = try world.restarted()
            #expect(none == nil)
            #expect(throws: AddressPoolError.self) { try first.take(for: "ben", at: 59 * second) }
            #expect(throws: Never.self) { try first.take(for: "ben", at: 61 * second) }
            world.pools.withLock { $0.restOthers(since: -30 * second) }
            world.keeper().write()
            // A further start knows of it.
            var (pools, later) = try world.restarted()
            #expect(later == nil)
            #expect(throws: AddressPoolError.self) { try pools.take(for: "ben", at: 29 * second) }
            #expect(throws: Never.self) { try pools.take(for: "ben", at: 31 * second) }
        }

        @Test("A file that the system cannot read is not changed, and the start fails")
        func cannotBeRead() throws {
            let world = try World()
            // A folder cannot be read as a file.
            _ = try world.directory.files.directory(AddressFile.name, makingIt: true)
            #expect(throws: CommandFailure.self) { try world.directory.addresses() }
            #expect(try world.directory.files.directory(AddressFile.name, makingIt: false) != nil)
            #expect(try world.directory.files.read(AddressFile.unreadable(1)) == nil)
        }

        @Test("A damaged file that cannot be copied is not changed, and the start fails")
        func cannotBeCopied() throws {
            let world = try World()
            try world.directory.files.write([1], to: AddressFile.name)
            _ = try world.directory.files.directory(AddressFile.unreadable(1), makingIt: true)
            #expect(throws: CommandFailure.self) { try world.directory.addresses() }
            #expect(try world.directory.files.read(AddressFile.name) == [1])
        }

        @Test("A rest goes on in the same boot whatever the wall clock shows, and begins anew after another boot")
        func boots() throws {
            let year: Int64 = 365 * 86_400
            for (isSame, shift) in [(true, year), (true, -year), (false, 0), (false, -year), (false, .min)] {
                let world = try World()
                let address = try world.take(for: "anna")
                world.give(back: address, of: "anna", at: -1800 * second)
                world.keeper().write(isLast: true)
                // The wall clock was wrong when the file was written.
                var (file, _) = try world.directory.addresses()
                #expect(file.boot?.isEmpty == false && file.bootedAt != nil)
                file.addresses = file.addresses.map { entry in
                    var entry = entry
                    entry.since = entry.since.map { $0 &+ shift }
                    return entry
                }
                file.bootedAt = file.bootedAt.map { $0 &+ shift }
                if !isSame { file.boot = "another" }
                try world.directory.write(file)
                var (pools, _) = try world.restarted()
                #expect((try pools.take(for: "ben", at: 1801 * second) == address) == isSame, "\(shift)")
            }
        }

        /// Earlier versions wrote the whole file at each login.
        @Test("With a thousand addresses in use, a login does not write the file")
        func cost() throws {
            let world = try World()
            let keeper = world.keeper()
            for number in 0..<1000 { _ = try world.take(for: "user\(number)") }
            let clock = ContinuousClock()
            var (each, now) = (Duration.zero, Duration.zero)
            for number in 0..<10 {
                _ = try world.take(for: "first\(number)")
                each += clock.measure { keeper.write() }
            }
            let before = world.writes.withLock { $0 }
            for number in 0..<40 {
                let address = try world.take(for: "second\(number)")
                now += clock.measure {
                    if !keeper.isStored(address, of: "second\(number)") { keeper.write() }
                }
            }
            print("addresses: 1,000 in use; \(each / 10) for a write of the file, \(now / 40) for a login")
            #expect(world.writes.withLock { $0 } == before)
        }
    }
#endif
