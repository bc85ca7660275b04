// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Crypto
import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import NIOTLS
import SwiftASN1
import TrustPinning
import TrustPinningNIO
import X509

/// The cost of evaluating a server, compared with the handshake that contains it.
enum TrustEvaluation {
    static let name = "TLS trust"

    static func suites(isQuick: Bool) -> [Suite] {
        [
            Suite(name: "\(name), one connection") { _ in try cases() },
            // One-time allocations are not released: a second run would reuse them.
            Suite(name: "\(name), memory", prepare: { _ in try memory() }, maximumRuns: 1),
        ]
    }

    // MARK: - Time

    private static func cases() throws -> [Case] {
        let chain = try BenchmarkChain()
        let cold = try evaluator(chain, rememberedChains: 0)
        let cached = try evaluator(chain, rememberedChains: 64)
        let server = try BenchmarkServer(chain)
        let trusting = try PinnedTLS { _ in ServerVerdict(isTrusted: true, reason: "benchmark") }
        let judgingCold = try PinnedTLS(trust: cold)
        let judgingCached = try PinnedTLS(trust: cached)
        var library = TLSConfiguration.makeClientConfiguration()
        library.trustRoots = .certificates([try NIOSSLCertificate(bytes: chain.root, format: .der)])
        let context = try NIOSSLContext(configuration: library)
        return [
            Case(name: "evaluation, chain verified", unit: .microseconds) { evaluate(cold, chain, $0) },
            Case(name: "evaluation, chain remembered", unit: .microseconds) { evaluate(cached, chain, $0) },
            Case(name: "handshake, nothing verified", unit: .microseconds) { duration in
                server.handshakes(duration) { try trusting.handler(for: chain.host) }
            },
            Case(name: "handshake, NIOSSL's own checks", unit: .microseconds) { duration in
                server.handshakes(duration) { try NIOSSLClientHandler(context: context, serverHostname: chain.host) }
            },
            Case(name: "handshake, chain verified and pinned", unit: .microseconds) { duration in
                server.handshakes(duration) { try judgingCold.handler(for: chain.host) }
            },
            Case(name: "handshake, chain remembered and pinned", unit: .microseconds) { duration in
                server.handshakes(duration) { try judgingCached.handler(for: chain.host) }
            },
        ]
    }

    static func evaluator(_ chain: BenchmarkChain, rememberedChains: Int) throws -> TrustEvaluator {
        let policy = try PinningPolicy(pins: [
            Pin(.spki, of: KeySource(certificate: chain.served[0]), scope: .leaf),
            Pin(.spki, PinHash(bytes: SHA256.hash(data: [1]).map { $0 }), role: .backup),
        ])
        let policies = try PolicySet([HostPolicy(.exact(chain.host), policy)], unlisted: .refuse)
        let trust = RootStoreTrust(roots: try .certificates([chain.root]), rememberedChains: rememberedChains)
        return TrustEvaluator(policies: policies, systemTrust: trust)
    }

    private static func evaluate(_ evaluator: TrustEvaluator, _ chain: BenchmarkChain, _ duration: Int) -> Double {
        let result = Waiter.run {
            var count = 0
            let start = nanoseconds()
            var elapsed = 0
            repeat {
                guard await evaluator.evaluate(chain: chain.served, host: chain.host).isTrusted else { return .nan }
                count += 1
                elapsed = nanoseconds() - start
            } while elapsed < duration
            return Double(elapsed) / Double(count) / 1000
        }
        return result
    }

    // MARK: - Memory

    private static func memory() throws -> [Case] {
        let chain = try BenchmarkChain()
        return [
            Case(name: "the system's roots, loaded", unit: .kibibytes) { _ in
                let before = resident()
                let trust = TrustEvaluator(
                    policies: (try? PolicySet([], unlisted: .systemTrust)) ?? empty,
                    systemTrust: RootStoreTrust(roots: .bundle(atPaths: ["/etc/ssl/certs/ca-certificates.crt"])))
                let isTrusted = Waiter.run {
                    await trust.evaluate(chain: chain.served, host: chain.host).isTrusted ? 1 : 0
                }
                keep(Int(isTrusted))
                defer { withExtendedLifetime(trust) {} }
                return Double(resident() - before)
            },
            Case(name: "a remembered chain", unit: .kibibytes) { _ in
                // More hosts than one page would hide.
                let count = 2_000
                guard let trust = try? RootStoreTrust(roots: .certificates([chain.root]), rememberedChains: count),
                    let evaluator = try? TrustEvaluator(
                        policies: PolicySet([], unlisted: .systemTrust), systemTrust: trust)
                else { return .nan }
                _ = Waiter.run { await evaluator.evaluate(chain: chain.served, host: chain.host).isTrusted ? 1 : 0 }
                let before = resident()
                _ = Waiter.run {
                    for number in 0..<count {
                        _ = await evaluator.evaluate(chain: chain.served, host: "h\(number).wild.\(chain.host)")
                    }
                    return 0
                }
                defer { withExtendedLifetime(trust) {} }
                return Double(resident() - before) / Double(count)
            },
        ]
    }

    private static let empty: PolicySet = {
        guard let set = try? PolicySet([], unlisted: .refuse) else { preconditionFailure("an empty set is a set") }
        return set
    }()

    /// The resident memory of this process in KiB.
    private static func resident() -> Int {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        return line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) } ?? 0
    }
}

/// A root, an intermediate and a leaf of P-256, valid today.
struct BenchmarkChain: Sendable {
    let host = "bench.example.com"
    let served: [[UInt8]]
    let root: [UInt8]
    let key: String

    init() throws {
        let rootKey = P256.Signing.PrivateKey()
        let issuerKey = P256.Signing.PrivateKey()
        let leafKey = P256.Signing.PrivateKey()
        let root = try Self.certificate(
            "Benchmark Root", rootKey, issuer: "Benchmark Root", by: rootKey, isAuthority: true)
        let issuer = try Self.certificate(
            "Benchmark CA", issuerKey, issuer: "Benchmark Root", by: rootKey, isAuthority: true)
        let leaf = try Self.certificate(
            host, leafKey, issuer: "Benchmark CA", by: issuerKey, isAuthority: false,
            names: [host, "*.wild.\(host)"])
        served = [leaf, issuer]
        self.root = root
        key = leafKey.pemRepresentation
    }

    private static func certificate(
        _ subject: String, _ key: P256.Signing.PrivateKey, issuer: String, by issuerKey: P256.Signing.PrivateKey,
        isAuthority: Bool, names: [String] = []
    ) throws -> [UInt8] {
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: Certificate.PublicKey(key.publicKey),
            notValidBefore: Date(timeIntervalSinceNow: -86_400), notValidAfter: Date(timeIntervalSinceNow: 86_400),
            issuer: DistinguishedName { CommonName(issuer) }, subject: DistinguishedName { CommonName(subject) },
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions {
                if isAuthority {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                    Critical(KeyUsage(keyCertSign: true))
                } else {
                    try ExtendedKeyUsage([.serverAuth])
                    SubjectAlternativeNames(names.map { .dnsName($0) })
                }
            }, issuerPrivateKey: Certificate.PrivateKey(issuerKey))
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }
}

/// A TLS server on loopback that sends no data.
private final class BenchmarkServer: Sendable {
    private let channel: any Channel
    private let port: Int

    init(_ chain: BenchmarkChain) throws {
        let configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try chain.served.map { .certificate(try NIOSSLCertificate(bytes: $0, format: .der)) },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(chain.key.utf8), format: .pem)))
        let context = try NIOSSLContext(configuration: configuration)
        channel = try ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
                }
            }
            .bind(host: "127.0.0.1", port: 0).wait()
        port = channel.localAddress?.port ?? 0
    }

    /// Connects again and again, each time to the end of the handshake on the client's side.
    /// - Returns: microseconds for each.
    func handshakes(_ duration: Int, _ handler: @escaping @Sendable () throws -> NIOSSLClientHandler) -> Double {
        var hasFailed = false
        let time = timed(duration, count: 1) {
            do { try handshake(handler) } catch { hasFailed = true }
        }
        return hasFailed ? .nan : time / 1000
    }

    private func handshake(_ handler: @escaping @Sendable () throws -> NIOSSLClientHandler) throws {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let done = loop.makePromise(of: Void.self)
        let client = try ClientBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers([try handler(), HandshakeEnd(done)])
                }
            }
            .connect(host: "127.0.0.1", port: port).wait()
        defer { client.close(promise: nil) }
        try done.futureResult.wait()
    }
}

private final class HandshakeEnd: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let promise: EventLoopPromise<Void>

    init(_ promise: EventLoopPromise<Void>) { self.promise = promise }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted = event { promise.succeed() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { promise.fail(error) }

    func channelInactive(context: ChannelHandlerContext) { promise.fail(ChannelError.eof) }
}
