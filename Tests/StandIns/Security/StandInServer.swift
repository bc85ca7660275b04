// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation

// Loading is Foundation's: with Apple's there are no servers.
#if canImport(FoundationNetworking)
    import Foundation
    import FoundationNetworking

    /// An HTTPS server without a network, behind `https://HOST:PORT` of sessions whose `protocolClasses` are
    /// `[StandInLoading.self]`.
    ///
    /// A session's first request to a port is a handshake, of which the session's delegate is told by challenges as
    /// https://developer.apple.com/documentation/foundation/handling-an-authentication-challenge says: who the server is, then,
    /// if it asks, who the client is. Later requests use the connection. Nothing of a request is seen before the server
    /// was accepted.
    public final class StandInServer: @unchecked Sendable {
        public enum Reply: Sendable {
            case answer(Int, fields: [String: String] = [:], body: [UInt8] = [])
            case failure(URLError.Code)
            /// No bytes ever arrive.
            case silence
        }

        public struct Figures: Sendable {
            public var handshakes = 0
            /// Calls of handlers of challenges.
            public var answers = 0
            public var requests: [URLRequest] = []
            /// The chains that clients sent, in DER; an empty one for each client that sent none when asked.
            public var clientChains: [[[UInt8]]] = []
            public var stopped = 0
        }

        public let port: Int
        public let chain: [[UInt8]]
        public let asksForClient: Bool
        /// Whether challenges go to the task's method of the delegate instead of the session's.
        public let challengesTasks: Bool
        private let reply: @Sendable (URLRequest) -> Reply

        private let lock = NSLock()
        private var content = Figures()
        private final class Known {
            weak var session: URLSession?

            init(_ session: URLSession) { self.session = session }
        }
        private var known: [Known] = []

        private final class Ports: @unchecked Sendable {
            let lock = NSLock()
            var servers: [StandInServer] = []
        }
        private static let ports = Ports()

        /// Starts a server, for good.
        /// - Parameter port: The port, below 10,000, where a later server replaces an earlier one; `nil` for a port that no other
        ///   server has.
        public init(
            chain: [[UInt8]], asksForClient: Bool = false, challengesTasks: Bool = false, port: Int? = nil,
            reply: @escaping @Sendable (URLRequest) -> Reply = { _ in .answer(200, body: Array("hello".utf8)) }
        ) {
            self.chain = chain
            self.asksForClient = asksForClient
            self.challengesTasks = challengesTasks
            self.reply = reply
            Self.ports.lock.lock()
            defer { Self.ports.lock.unlock() }
            self.port = port ?? 10_000 + Self.ports.servers.count
            Self.ports.servers.append(self)
        }

        public func url(_ path: String = "/", host: String = "www.example.com") -> URL? {
            URL(string: "https://\(host):\(port)\(path)")
        }

        public var figures: Figures { lock.withLock { content } }

        static func server(at port: Int) -> StandInServer? {
            ports.lock.withLock { ports.servers.last { $0.port == port } }
        }

        /// Whether this session has no connection yet.
        func isNew(_ session: URLSession) -> Bool { lock.withLock { !known.contains { $0.session === session } } }

        func connected(_ session: URLSession) { lock.withLock { known.append(Known(session)) } }

        func note(_ change: (inout Figures) -> Void) { lock.withLock { change(&content) } }

        func reply(to request: URLRequest) -> Reply {
            note { $0.requests.append(request) }
            return reply(request)
        }
    }

    /// Loads from a ``StandInServer``.
    public final class StandInLoading: URLProtocol {
        private final class Sender: NSObject, URLAuthenticationChallengeSender {
            func use(_ credential: URLCredential, for challenge: URLAuthenticationChallenge) {}
            func continueWithoutCredential(for challenge: URLAuthenticationChallenge) {}
            func cancel(_ challenge: URLAuthenticationChallenge) {}
            func performDefaultHandling(for challenge: URLAuthenticationChallenge) {}
            func rejectProtectionSpaceAndContinue(with challenge: URLAuthenticationChallenge) {}
        }

        private typealias Handler = @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void

        override public class func canInit(with request: URLRequest) -> Bool { true }

        override public class func canonicalRequest(for request: URLRequest) -> URLRequest { request }

        override public func stopLoading() { request.url?.port.flatMap(StandInServer.server)?.note { $0.stopped += 1 } }

        override public func startLoading() {
            guard let url = request.url, let host = url.host, let server = url.port.flatMap(StandInServer.server) else {
                return fail(.cannotConnectToHost)
            }
            guard let session, server.isNew(session) else { return load(server) }
            server.note { $0.handshakes += 1 }
            var trust: SecTrust?
            let list = server.chain.map { SecCertificate(NSData(data: Data($0))) }
            _ = SecTrustCreateWithCertificates(
                NSArray(array: list), SecPolicyCreateSSL(true, NSString(string: host)), &trust)
            nonisolated(unsafe) let loading = self
            nonisolated(unsafe) let shown = trust
            challenge(server, NSURLAuthenticationMethodServerTrust, host, trust) { disposition, credential in
                switch disposition {
                case .useCredential where credential?.standInAcceptsServer == true: break
                case .performDefaultHandling:
                    guard let shown, SecTrustEvaluateWithError(shown, nil) else {
                        return loading.fail(.serverCertificateUntrusted)
                    }
                default: return loading.fail(.cancelled)
                }
                loading.identify(server, host, session)
            }
        }

        private func identify(_ server: StandInServer, _ host: String, _ session: URLSession) {
            guard server.asksForClient else {
                server.connected(session)
                return load(server)
            }
            nonisolated(unsafe) let loading = self
            challenge(server, NSURLAuthenticationMethodClientCertificate, host, nil) { disposition, credential in
                guard disposition != .cancelAuthenticationChallenge else { return loading.fail(.cancelled) }
                let chain = disposition == .useCredential ? credential?.standInShownChain : nil
                server.note { $0.clientChains.append(chain ?? []) }
                server.connected(session)
                loading.load(server)
            }
        }

        /// A task's session is not public.
        private var session: URLSession? {
            guard let task else { return nil }
            var mirror: Mirror? = Mirror(reflecting: task)
            while let current = mirror {
                if let found = current.children.first(where: { $0.label == "session" }) {
                    return found.value as? URLSession
                }
                mirror = current.superclassMirror
            }
            return nil
        }

        private func challenge(
            _ server: StandInServer, _ method: String, _ host: String, _ trust: SecTrust?, _ handler: @escaping Handler
        ) {
            let space = StandInProtectionSpace(host: host, port: server.port, method: method, trust: trust)
            let challenge = URLAuthenticationChallenge(
                protectionSpace: space, proposedCredential: nil, previousFailureCount: 0, failureResponse: nil,
                error: nil,
                sender: Sender())
            guard let session, let task, let delegate = session.delegate as? any URLSessionTaskDelegate else {
                return handler(.performDefaultHandling, nil)
            }
            let answer: Handler = { disposition, credential in
                server.note { $0.answers += 1 }
                handler(disposition, credential)
            }
            session.delegateQueue.addOperation {
                if server.challengesTasks {
                    delegate.urlSession(session, task: task, didReceive: challenge, completionHandler: answer)
                } else {
                    delegate.urlSession(session, didReceive: challenge, completionHandler: answer)
                }
            }
        }

        private func load(_ server: StandInServer) {
            switch server.reply(to: request) {
            case .silence: return
            case .failure(let code): return fail(code)
            case .answer(let status, let fields, let body):
                guard let url = request.url,
                    let head = HTTPURLResponse(
                        url: url, statusCode: status, httpVersion: "HTTP/1.1", headerFields: fields)
                else { return fail(.badURL) }
                client?.urlProtocol(self, didReceive: head, cacheStoragePolicy: .notAllowed)
                for start in stride(from: 0, to: body.count, by: 1024) {
                    client?.urlProtocol(self, didLoad: Data(body[start..<min(start + 1024, body.count)]))
                }
                client?.urlProtocolDidFinishLoading(self)
            }
        }

        private func fail(_ code: URLError.Code) { client?.urlProtocol(self, didFailWithError: URLError(code)) }
    }
#endif
