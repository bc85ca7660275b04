// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import TunnelSystem

@testable import culvert_credential_server

@Suite struct ServerConfigurationTests {
    private func configuration() throws -> ServerConfiguration {
        var configuration = ServerConfiguration()
        configuration.addresses = [try InterfaceAddress("10.66.0.1/24"), try InterfaceAddress("fd66::1/64")]
        return configuration
    }

    @Test("What init writes can be used, and is read as it was written")
    func roundTrip() throws {
        var configuration = try configuration()
        configuration.nameServers = [try IPAddress("9.9.9.9"), try IPAddress("10.66.0.1"), try IPAddress("fd66::1")]
        #expect(configuration.problem == nil)
        #expect(try ServerConfiguration(json: configuration.text()) == configuration)
    }

    @Test("A time or number that is too small or too large is refused by its name")
    func bounds() throws {
        let fields: [(String, WritableKeyPath<ServerConfiguration, Int>)] = [
            ("addressRest", \.addressRest), ("sessionLifetime", \.sessionLifetime),
            ("sessionsPerUser", \.sessionsPerUser), ("clients", \.clients), ("failures.free", \.failures.free),
            ("failures.longestSourceWait", \.failures.longestSourceWait),
            ("failures.longestLoginWait", \.failures.longestLoginWait), ("failures.memory", \.failures.memory),
        ]
        for (name, field) in fields {
            for value in [-1, Int.min, 315_360_001, 9_223_372_037, Int.max] {
                var configuration = try configuration()
                configuration[keyPath: field] = value
                #expect(configuration.problem?.hasPrefix("\(name) is ") == true, "\(name) \(value)")
            }
        }
    }

    @Test("The longest times that are allowed do not overflow")
    func longest() throws {
        var configuration = try configuration()
        configuration.sessionLifetime = 315_360_000
        configuration.failures = LoginLimiter.Limits(
            free: 1, longestSourceWait: 315_360_000, longestLoginWait: 315_360_000, memory: 315_360_000)
        #expect(configuration.problem == nil)
        var limiter = LoginLimiter(configuration.failures)
        for number in 0..<40 as Range<Int64> {
            limiter.failed(from: try IPAddress("192.0.2.7"), as: "anna", at: number)
        }
        #expect(try limiter.wait(from: IPAddress("192.0.2.7"), as: "anna", at: 40) > 0)
    }

    @Test(
        "A name server that no client can reach is refused, since each login would be refused by its client",
        arguments: ["127.0.0.53", "0.0.0.0", "224.0.0.251", "255.255.255.255", "::", "::1", "ff02::fb"])
    func nameServers(_ text: String) throws {
        var configuration = try configuration()
        configuration.nameServers = [try IPAddress("9.9.9.9"), try IPAddress(text)]
        let problem = try #require(configuration.problem)
        #expect(problem.hasPrefix("nameServers: clients cannot reach \(text); name a server on the network"))
    }

    @Test("An address that no interface can have is refused", arguments: ["127.0.0.1/8", "224.0.0.1/24", "ff02::1/64"])
    func addresses(_ text: String) throws {
        var configuration = try configuration()
        configuration.addresses = [try InterfaceAddress(text)]
        #expect(configuration.problem?.hasPrefix("addresses: no interface can have \(text); use ") == true)
    }
}
