// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("Problems of JSON")
struct DecodingProblemTests {
    private struct Document: Decodable {
        struct Peer: Decodable {
            var port: UInt16
            var name: Name
        }

        var peers: [Peer]
    }

    /// A name that quotes the value that it does not accept.
    private struct Name: Decodable {
        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            let text = try container.decode(String.self)
            guard text.isEmpty else {
                throw DecodingError.dataCorruptedError(in: container, debugDescription: "'\(text)' is not a name")
            }
        }
    }

    private static func error(_ json: String) throws -> DecodingError {
        try #require(throws: DecodingError.self) {
            _ = try JSONDecoder().decode(Document.self, from: Data(json.utf8))
        }
    }

    @Test(
        "A problem has a place and a reason",
        arguments: [
            ("{}", "", "no 'peers'"),
            (#"{"peers":[{"port":1,"name":""},{"name":""}]}"#, "peers[1]", "no 'port'"),
            (#"{"peers":[{"port":"secret","name":""}]}"#, "peers[0].port", "no UInt16"),
            (#"{"peers":[{"port":1,"name":"secret"}]}"#, "peers[0].name", "'secret' is not a name"),
        ])
    func places(json: String, place: String, reason: String) throws {
        let problem = try Self.error(json).problem()
        #expect(problem.place == place)
        #expect(problem.reason == reason)
    }

    @Test(
        "A summary contains no value of the document",
        arguments: [
            ("{", "not valid at the top level"),
            (#"{"peers":[{"port":1,"name":"secret"}]}"#, "not valid at 'peers[0].name'"),
            (#"{"peers":[{"port":"secret","name":""}]}"#, "no UInt16 at 'peers[0].port'"),
        ])
    func summaries(json: String, summary: String) throws {
        #expect(DecodingError.summary(of: try Self.error(json)) == summary)
    }

    @Test("The summary of another error does not describe it")
    func otherErrors() {
        struct Secret: Error {}
        #expect(DecodingError.summary(of: Secret()) == "not valid for its type")
    }
}
