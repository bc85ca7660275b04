// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security)
    import Foundation
    import Security
    import Synchronization
    import TrustPinning

    #if canImport(FoundationNetworking)
        import FoundationNetworking
    #endif

    /// One task, until its response is complete.
    final class SessionExchange: Sendable {
        typealias Outcome = Result<(Data, HTTPURLResponse), PinnedSessionError>

        private struct State {
            var waiter: CheckedContinuation<Outcome, Never>?
            var outcome: Outcome?
            var data = Data()
            var response: HTTPURLResponse?
        }

        private let task: URLSessionDataTask
        private let limit: Int
        private let refusal: @Sendable () -> PinnedSessionError?
        private let state = Mutex(State())

        /// - Parameter refusal: Returns the error if the server was refused.
        init(_ task: URLSessionDataTask, limit: Int, refusal: @escaping @Sendable () -> PinnedSessionError?) {
            self.task = task
            self.limit = limit
            self.refusal = refusal
        }

        /// Sends the request. Call it once.
        func start(_ waiter: CheckedContinuation<Outcome, Never>) {
            let early = state.withLock { state in
                if state.outcome == nil { state.waiter = waiter }
                return state.outcome
            }
            if let early { waiter.resume(returning: early) } else { task.resume() }
        }

        /// Ends the task with this error, unless it has ended.
        func end(_ error: PinnedSessionError) {
            finish(.failure(error))
            task.cancel()
        }

        /// Handles the head of the response. Returns whether to continue.
        func receive(_ response: URLResponse) -> Bool {
            guard let head = response as? HTTPURLResponse else {
                end(.invalidResponse("it is not HTTP"))
                return false
            }
            // Ignore the length of a response to HEAD, which is the length of a body that is not sent.
            let isAlone = task.originalRequest?.httpMethod?.uppercased() == "HEAD"
            guard isAlone || head.expectedContentLength <= Int64(limit) else {
                end(.responseTooLarge(limit: limit))
                return false
            }
            state.withLock { $0.response = head }
            return true
        }

        func receive(_ data: Data) {
            let fits = state.withLock { state in
                guard data.count <= limit - state.data.count else { return false }
                state.data.append(data)
                return true
            }
            if !fits { end(.responseTooLarge(limit: limit)) }
        }

        func complete(_ error: (any Error)?) {
            if let error { return finish(.failure(meaning(of: error))) }
            let (data, response) = state.withLock { ($0.data, $0.response) }
            finish(response.map { .success((data, $0)) } ?? .failure(.invalidResponse("it has no head")))
        }

        private func finish(_ outcome: Outcome) {
            let waiter = state.withLock { state in
                guard state.outcome == nil else { return nil as CheckedContinuation<Outcome, Never>? }
                state.outcome = outcome
                defer { state.waiter = nil }
                return state.waiter
            }
            waiter?.resume(returning: outcome)
        }

        /// Converts an error of the platform. Uses only its code, because its text may contain the server's name.
        private func meaning(of error: any Error) -> PinnedSessionError {
            guard let code = (error as? URLError)?.code else { return .connectionLost("\(type(of: error))") }
            let text = "URL loading error \(code.rawValue)"
            switch code {
            // A refused challenge results in this error.
            case .cancelled: return refusal() ?? .connectionLost(text)
            case .timedOut: return .timedOut(.idle)
            case .cannotFindHost, .cannotConnectToHost, .dnsLookupFailed, .notConnectedToInternet:
                return .unreachable(text)
            case .secureConnectionFailed, .serverCertificateHasBadDate, .serverCertificateUntrusted,
                .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid, .clientCertificateRejected,
                .clientCertificateRequired:
                return refusal() ?? .handshakeFailed(text)
            case .badServerResponse, .cannotParseResponse, .cannotDecodeContentData, .cannotDecodeRawData:
                return .invalidResponse(text)
            default: return .connectionLost(text)
            }
        }
    }

    /// The delegate of a session: passes challenges to the responder, and other events to the exchange.
    final class SessionDelegate: NSObject, URLSessionDataDelegate {
        private let responder: ChallengeResponder
        private let exchanges = Mutex<[Int: SessionExchange]>([:])

        init(_ responder: ChallengeResponder) { self.responder = responder }

        func add(_ exchange: SessionExchange, _ task: URLSessionTask) {
            exchanges.withLock { $0[task.taskIdentifier] = exchange }
        }

        private func exchange(_ task: URLSessionTask) -> SessionExchange? {
            exchanges.withLock { $0[task.taskIdentifier] }
        }

        func urlSession(
            _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) {
            // Reject password challenges: this session stores no passwords, and requests can contain them in header
            // fields.
            if responder.respond(to: challenge, completionHandler: completionHandler) { return }
            completionHandler(.rejectProtectionSpace, nil)
        }

        func urlSession(
            _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) {
            urlSession(session, didReceive: challenge, completionHandler: completionHandler)
        }

        /// Returns redirects as responses: the session applies its rule to them.
        func urlSession(
            _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
            newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
        ) {
            completionHandler(nil)
        }

        func urlSession(
            _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
            completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
        ) {
            completionHandler(exchange(dataTask)?.receive(response) == true ? .allow : .cancel)
        }

        func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
            exchange(dataTask)?.receive(data)
        }

        func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
            exchanges.withLock { $0.removeValue(forKey: task.taskIdentifier) }?.complete(error)
        }
    }
#endif
