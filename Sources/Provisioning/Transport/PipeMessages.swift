// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The messages over pipes between a program without TLS and `culvert-enroll transport`: one request and one reply,
/// each a line of JSON. The request is sent to standard input, so that other users of the machine cannot see it.
package enum PipeMessages {
    /// The largest size of a request line in bytes, which a pipe accepts in one write.
    package static let requestLimit = 60_000

    /// The largest size of a reply line, without the body.
    package static let replyOverhead = 16_384

    /// A reply or an error, and log messages.
    package struct Outcome: Sendable {
        package var result: Result<ProvisioningReply, ProvisioningTransportError>
        package var notes: [String]

        package init(_ result: Result<ProvisioningReply, ProvisioningTransportError>, notes: [String] = []) {
            self.result = result
            self.notes = notes
        }
    }

    private struct Request: Codable {
        var server: ProvisioningServer
        var method: ProvisioningRequest.Method
        var target: String
        var bearer: Data?
        var body: Data?
        var replyLimit: Int
        var timeoutSeconds: Double
        var socketMark: UInt32?
    }

    private struct Reply: Codable {
        var status: Int?
        var body: Data?
        var error: ProvisioningTransportError?
        var notes: [String]
    }

    /// The line of a request; `nil` if it is too long for a pipe.
    package static func line(_ request: ProvisioningRequest) -> [UInt8]? {
        let message = Request(
            server: request.server, method: request.method, target: request.target,
            bearer: request.bearer.map { Data($0.bytes) }, body: request.body.map { Data($0) },
            replyLimit: request.replyLimit, timeoutSeconds: request.timeout / .seconds(1),
            socketMark: request.socketMark)
        guard let line = try? JSONEncoder().encode(message), line.count < requestLimit else { return nil }
        return Array(line) + [UInt8(ascii: "\n")]
    }

    /// Parses a request line. Returns `nil` if it is invalid.
    package static func request(_ line: [UInt8]) -> ProvisioningRequest? {
        guard let message = try? JSONDecoder().decode(Request.self, from: Data(line)),
            (0.001...3600).contains(message.timeoutSeconds), message.replyLimit > 0
        else { return nil }
        return ProvisioningRequest(
            server: message.server, method: message.method, target: message.target,
            bearer: message.bearer.map { SecretBytes($0) }, body: message.body.map { Array($0) },
            replyLimit: message.replyLimit, timeout: .seconds(message.timeoutSeconds), socketMark: message.socketMark)
    }

    /// The line of an outcome.
    package static func line(_ outcome: Outcome) -> [UInt8] {
        var message = Reply(notes: outcome.notes)
        switch outcome.result {
        case .success(let reply): (message.status, message.body) = (reply.status, Data(reply.body))
        case .failure(let error): message.error = error
        }
        return Array((try? JSONEncoder().encode(message)) ?? Data()) + [UInt8(ascii: "\n")]
    }

    /// Parses a reply line. Returns `nil` if it is invalid.
    package static func outcome(_ line: some Sequence<UInt8>) -> Outcome? {
        guard let message = try? JSONDecoder().decode(Reply.self, from: Data(Array(line))) else { return nil }
        switch (message.status, message.body, message.error) {
        case (let status?, let body?, nil):
            return Outcome(.success(ProvisioningReply(status: status, body: Array(body))), notes: message.notes)
        case (nil, nil, let error?): return Outcome(.failure(error), notes: message.notes)
        default: return nil
        }
    }
}
