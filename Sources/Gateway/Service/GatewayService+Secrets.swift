// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
import PacketTunnel
import Provisioning
import Synchronization
import TunnelSystem

// Failures are counted for each source (an IPv4 address or an IPv6 /64 network) and for the first characters of each
// secret. A valid secret never waits, because it is looked up before the failures are counted. During a wait, all
// invalid secrets get the same answer, which makes guessing slow. A wait ends without any action.

extension GatewayService {
    /// Identifies the caller by an API token or a device's credential. Failures are counted for the source and for the
    /// first characters of the secret. A valid secret is always accepted.
    package func caller(bearer: String?, from source: IPAddress) async throws(GatewayError) -> Caller {
        guard let secret = bearer.flatMap({ BearerSecret($0) }) else {
            throw failure(.unauthorized, bearer, source)
        }
        let hash = SecretHash(secret)
        switch secret.kind {
        case .token:
            guard let token = try await stored("token", try await store.token(hash)) else {
                throw failure(.unauthorized, bearer, source)
            }
            let caller = try self.caller(token, source)
            succeeded(bearer, source)
            await recordUse(of: token)
            return caller
        case .device:
            let found = try await stored("device", try await store.device(credential: hash))
            guard let found else { throw failure(.deviceUnknown, bearer, source) }
            succeeded(bearer, source)
            try check(found)
            return Caller(.device(found.device.id, found.user.id), from: source)
        case .invitation:
            // An invitation permits only an enrolment.
            throw .forbidden
        }
    }

    private func caller(_ token: Token, _ source: IPAddress) throws(GatewayError) -> Caller {
        guard inEffect(token).revokedAt == nil, !token.isExpired(at: now) else { throw .tokenExpired }
        switch token.scope {
        case .admin: return Caller(.admin(token.id), from: source)
        case .readOnly: return Caller(.readOnly(token.id), from: source)
        case .enrol:
            guard let user = token.userID else { throw .forbidden }
            return Caller(.enroller(token.id, user), from: source)
        // This token is for the `addKey` listener only, where it is part of a URL that may be logged.
        case .addKey: throw .forbidden
        }
    }

    /// Checks that a device and its user have access.
    func check(_ found: DeviceOfUser) throws(GatewayError) {
        try checkEnds(found)
        let now = now
        guard found.user.isEnabled else { throw .userDisabled }
        guard found.user.isActive(at: now) else { throw .userExpired }
        guard found.device.isEnabled else { throw .deviceDisabled }
        guard found.device.isActive(at: now) else { throw .deviceExpired }
    }

    /// Counts a failure, and returns the error to answer: the same for all secrets while there are too many failures.
    func failure(_ error: GatewayError, _ bearer: String?, _ source: IPAddress) -> GatewayError {
        let time = nanoseconds
        let login = Self.prefix(bearer)
        let wait = state.withLock { state in
            let wait = state.limiter.wait(from: source, as: login, at: time)
            if wait == 0 { state.limiter.failed(from: source, as: login, at: time) }
            return wait
        }
        guard wait == 0 else {
            return .tooManyFailures(retryAfterSeconds: Int((wait + 999_999_999) / 1_000_000_000))
        }
        logRateLimited("refused from \(source): \(error.code)")
        return error
    }

    func succeeded(_ bearer: String?, _ source: IPAddress) {
        let time = nanoseconds
        state.withLock { $0.limiter.succeeded(from: source, as: Self.prefix(bearer), at: time) }
    }

    /// Returns the first characters of a secret, by which failures are counted. The limiter stores only a hash of
    /// them.
    private static func prefix(_ bearer: String?) -> String { String((bearer ?? "").prefix(9)) }

    /// Records the use of a token, at most once a minute.
    private func recordUse(of token: Token) async {
        let time = nanoseconds
        guard state.withLock({ $0.uses.allows(token.id, at: time) }) else { return }
        let now = now
        // Ignore a failed write, which was already logged: it must not lock out administrators.
        _ = try? await written("token", try await store.recordUse(of: token.id, at: now))
    }
}
