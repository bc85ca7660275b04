// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Foundation
import NetworkAddresses
import Provisioning
import Testing
import TunnelSystem

@testable import Gateway

/// Tests with a process that enrols devices and is killed by SIGKILL.
@Suite(.serialized) struct StoreCrashTests {
    private static let count = 1000
    private static let variable = "CULVERT_GATEWAY_CRASH"

    /// Waits until the parent kills this process, or has ended: on a slow machine, the parent may be late.
    private static func waitForEnd() { _ = SystemCall.readAll(0, limit: 1) }

    /// The same enrolments in both processes, from one seed.
    private static func plan(
        _ store: GatewayStore
    ) throws -> (user: User, invitations: [IssuedInvitation], enrolments: [Enrolment], fixture: StoreFixture) {
        let fixture = StoreFixture(store, seed: 42)
        let user = User(id: fixture.id(), login: "anna", createdAt: fixture.start)
        let limits = try fixture.limits(["10.66.0.1/16", "fd66::1/64"], perUser: 10_000)
        let invitations = (0..<count).map { _ in
            IssuedInvitation(
                id: fixture.id(), userID: user.id, deviceName: "", hash: fixture.hash(), hint: "",
                createdAt: fixture.start, expiresAt: fixture.start.addingTimeInterval(3600))
        }
        let enrolments = try invitations.map { try fixture.enrolment(.invitation($0.hash), limits: limits) }
        return (user, invitations, enrolments, fixture)
    }

    @Test(
        "The child process enrols eight devices at a time, reports each one, and waits before the last eight",
        .enabled(if: ProcessInfo.processInfo.environment[variable] != nil, "is started by another test"))
    func child() async throws {
        let path = try #require(ProcessInfo.processInfo.environment[Self.variable])
        let store = try GatewayStore(path: path)
        let enrolments = try Self.plan(store).enrolments
        try await withThrowingTaskGroup(of: Void.self) { group in
            for start in 0..<8 {
                group.addTask {
                    for number in stride(from: start, to: Self.count - 8, by: 8) {
                        guard case .made = try await store.enrol(enrolments[number]) else { continue }
                        SystemCall.writeAll(1, Array("\nmade \(number)\n".utf8))
                    }
                }
            }
            try await group.waitForAll()
        }
        Self.waitForEnd()
    }

    @Test(
        "A process that is killed during 1,000 enrolments loses and duplicates none",
        .timeLimit(.minutes(3)), arguments: [100, 350, 700])
    func killed(after count: Int) async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            var store = try GatewayStore(path: path)
            let (user, invitations, enrolments, fixture) = try Self.plan(store)
            _ = try await store.add(user, nil, fixture.audit())
            for invitation in invitations { _ = try await store.add(invitation, nil, fixture.audit(.invitationAdded)) }
            try store.close()

            let (reported, signal) = try await Self.killChild(path, after: count)
            #expect(signal == SIGKILL)
            #expect(reported.count >= count && reported.count < Self.count)
            store = try GatewayStore(path: path)
            try await store.check()
            let survived = try await store.counts(at: fixture.start).devices
            #expect(survived >= reported.count)
            for (number, enrolment) in enrolments.enumerated() {
                switch try await store.enrol(enrolment) {
                case .repeated(let before): #expect(before.device.id == enrolment.deviceID)
                case .made: #expect(!reported.contains(number), "enrolment \(number) was lost")
                case .refused(let refusal): Issue.record("enrolment \(number) was refused: \(refusal)")
                }
            }
            let leases = try await store.leases()
            #expect(leases.count == 2 * Self.count && leases.allSatisfy { $0.deviceID != nil })
            let devices = try await Self.all { try await store.devices(of: user.id, $0) }
            #expect(devices.count == Self.count && devices.allSatisfy { $0.addresses.count == 2 })
            #expect(Set(devices.flatMap(\.addresses)).count == 2 * Self.count)
            let used = try await Self.all { try await store.invitations($0) }
            #expect(Set(used.compactMap(\.deviceID)) == Set(devices.map(\.id)))
            let entries = try await Self.all { try await store.audit(AuditFilter(action: .deviceEnrolled), $0) }
            #expect(entries.count == Self.count)
            try await store.check()
            try store.close()
        }
    }

    // MARK: - Logins

    private static let leaseCount = 400
    private static let leaseVariable = "CULVERT_GATEWAY_LEASE_CRASH"

    /// The same logins in both processes, each of another user.
    private static func leases(_ fixture: StoreFixture) throws -> [LoginLease] {
        let limits = try fixture.limits(["10.66.0.1/16", "fd66::1/64"])
        return try (0..<leaseCount).map { number in
            LoginLease(
                userID: fixture.id(), password: StoredPassword(text: "of user\(number)"), busy: [],
                deviceID: fixture.id(), sessionsPerUser: 5, limits: limits, now: fixture.start,
                source: try Endpoint("192.0.2.7:4000"))
        }
    }

    @Test(
        "The child process leases addresses for 32 logins at a time, reports each one, and waits before the last 32",
        .enabled(if: ProcessInfo.processInfo.environment[leaseVariable] != nil, "is started by another test"))
    func leasingChild() async throws {
        let path = try #require(ProcessInfo.processInfo.environment[Self.leaseVariable])
        let store = try GatewayStore(path: path)
        let leases = try Self.leases(StoreFixture(store, seed: 43))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for start in 0..<32 {
                group.addTask {
                    for number in stride(from: start, to: Self.leaseCount - 32, by: 32) {
                        guard case .given = try await store.lease(leases[number]) else { continue }
                        SystemCall.writeAll(1, Array("\nmade \(number)\n".utf8))
                    }
                }
            }
            try await group.waitForAll()
        }
        Self.waitForEnd()
    }

    @Test("A process that is killed during 400 logins loses none that it has acknowledged", .timeLimit(.minutes(3)))
    func killedDuringLogins() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            var store = try GatewayStore(path: path)
            let fixture = StoreFixture(store, seed: 43)
            let leases = try Self.leases(fixture)
            for (number, lease) in leases.enumerated() {
                let user = User(
                    id: lease.userID, login: "user\(number)", password: lease.password, createdAt: fixture.start)
                _ = try await store.add(user, nil, fixture.audit())
            }
            try store.close()

            let (reported, signal) = try await Self.killChild(path, after: 100, "leasingChild", Self.leaseVariable)
            #expect(signal == SIGKILL)
            #expect(reported.count >= 100 && reported.count < Self.leaseCount)
            store = try GatewayStore(path: path)
            try await store.check()
            for number in reported {
                let found = try #require(try await store.device(leases[number].deviceID), "login \(number) was lost")
                #expect(found.device.addresses.count == 2 && found.user.id == leases[number].userID)
            }
            // A login whose answer was lost has its device too, with the change and the audit entry.
            let devices = try await Self.all { try await store.devices(of: nil, $0) }
            let entries = try await Self.all { try await store.audit(AuditFilter(action: .loginAccepted), $0) }
            #expect(Set(entries.map(\.record.subject)) == Set(devices.map { "device:\($0.id)" }))
            #expect(entries.count == devices.count && devices.count >= reported.count)
            #expect(Set(devices.flatMap(\.addresses)).count == 2 * devices.count)
            try store.close()
        }
    }

    private static func all<Item>(_ part: (PageRequest) async throws -> Page<Item>) async throws -> [Item] {
        var items: [Item] = []
        var page = PageRequest(limit: PageRequest.most)
        repeat {
            let next = try await part(page)
            items += next.items
            page.after = next.next
        } while page.after != nil
        return items
    }

    /// Starts the process, kills it after this number of reports, and returns the numbers that it reported.
    private static func killChild(
        _ path: String, after count: Int, _ test: String = "child", _ variable: String = variable
    ) async throws -> (made: Set<Int>, signal: Int32) {
        let (input, output) = (try DescriptorPipe(), try DescriptorPipe())
        let setup = SpawnSetup(.ownGroup)
        setup.pass(input.reader.number, as: 0)
        setup.pass(output.writer.number, as: 1)
        setup.openNull(2, forWriting: true)
        var environment = ProcessInfo.processInfo.environment
        environment[variable] = path
        let child = try setup.start(
            "/proc/self/exe",
            arguments: ["tests", "--testing-library", "swift-testing", "--filter", "StoreCrashTests/\(test)"],
            environment: environment.map { "\($0)=\($1)" })
        output.writer.close()
        input.reader.close()
        // Wait on a separate thread, because waiting blocks.
        return await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let reported = read(output.reader.number, of: child, until: count)
                var status: Int32 = 0
                unsafe waitpid(child, &status, 0)
                output.reader.close()
                input.writer.close()
                continuation.resume(returning: (reported, status & 0x7f))
            }
        }
    }

    /// Reads until the pipe has no writer.
    private static func read(_ descriptor: Int32, of child: Int32, until count: Int) -> Set<Int> {
        var reported: Set<Int> = []
        var text: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while case let size = unsafe chunk.withUnsafeMutableBytes({ unsafe SystemCall.read(descriptor, into: $0) }),
            size > 0
        {
            text += chunk[..<size]
            guard let end = text.lastIndex(of: UInt8(ascii: "\n")) else { continue }
            for line in String(decoding: text[...end], as: UTF8.self).split(separator: "\n")
            where line.hasPrefix("made ") {
                if let number = Int(line.dropFirst(5)) { reported.insert(number) }
            }
            text.removeSubrange(...end)
            if reported.count >= count { kill(child, SIGKILL) }
        }
        return reported
    }
}
