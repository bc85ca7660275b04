// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import FoundationEssentials
import Logging

// The sessions of the login tunnel.

extension GatewayRuntime {
    /// Decides on a login. The firewall and the routes admit the client before the client receives the answer.
    func verdict(on attempt: LoginAttempt) async -> LoginVerdict {
        let request = LoginRequest(
            login: attempt.login, password: attempt.password, source: attempt.source, busy: logins.busy)
        let resumption = attempt.resumption.flatMap(LoginResumption.init)
        do throws(GatewayError) {
            guard let judgement = try await judgement(on: request, attempt.resumption != nil, resumption) else {
                return .notResumed
            }
            switch judgement {
            case .refused(let refusal): return .refused(refusal.body)
            case .accepted(let device, let password, let addresses):
                // The user and the device may have changed since the password was verified.
                let isApplied = await applyChanges()
                let assignment = settings.assignment(addresses, families: families)
                // Another login may already have started the next round, so `isCurrent` may be false. Check the device.
                guard isApplied, sequence != nil, errors.isEmpty, !isStopped, peers.password(of: device) == password,
                    peers.isInNetwork(device), !assignment.addresses.isEmpty
                else { return .refused(Body.Refusal(.unavailable)) }
                let now = Int64(clock.now().timeIntervalSince1970)
                let verifiedAt = min(resumption?.verifiedAt ?? now, now)
                var random = SystemRandomNumberGenerator()
                let number = random.next() as UInt64
                let formers = logins.begin(
                    attempt.session, device, password, at: clock.nanoseconds() - (now - verifiedAt) * 1_000_000_000,
                    ticketNumber: number)
                for former in formers { login?.disconnect(former) }
                guard tickets != nil else { return .accepted(assignment) }
                let new = LoginResumption(
                    device: device, session: number, password: password, verifiedAt: verifiedAt)
                let lifetime = Int64(settings.loginTunnel.sessionLifetimeSeconds)
                return .resumable(
                    assignment,
                    TicketGrant(content: new.bytes, deadline: lifetime > 0 ? verifiedAt + lifetime : nil))
            }
        } catch {
            let text = "cannot verify a login: \(Self.reason(error))"
            if failures.allows(text, at: clock.nanoseconds()) { logger.error("\(text)") }
            return .refused(Body.Refusal(.unavailable))
        }
    }

    /// - Returns: `nil` if the login has a ticket, and the ticket is void.
    private func judgement(
        on request: LoginRequest, _ hasTicket: Bool, _ resumption: LoginResumption?
    ) async throws(GatewayError) -> LoginJudgement? {
        guard hasTicket else { return try await service.logIn(request, .gateway) }
        guard let resumption else { return nil }
        return try await service.resume(
            resumption, request, isOwnSession: logins.isCurrent(resumption.session, of: resumption.device), .gateway)
    }

    /// Handles the end of a session: records its traffic and logs the reason.
    func ended(_ session: ClientID, _ reason: EndReason, _ moved: SessionTraffic) {
        guard let ended = logins.end(session) else { return }
        traffic.record(TrafficLedger.Count(moved, nil), of: .session(session), ended.device, at: clock.now())
        traffic.forget(.session(session))
        logger.info("a session of device \(ended.device) has ended: \(reason)")
    }

    /// Ends the sessions whose device was replaced, removed or disabled, or whose password has changed, and those that
    /// exceed the session lifetime.
    func endSessions() {
        // While the store cannot be read, the access may still be valid: the reason permits clients to log in again.
        for session in logins.over({ peers.password(of: $0) }) {
            login?.disconnect(session, errors.store != nil ? .shutdown : reason(ofEnd: session))
        }
        let lifetime = settings.loginTunnel.sessionLifetimeSeconds
        guard lifetime > 0 else { return }
        // The reason `.closed` permits these clients to log in again immediately.
        for session in logins.began(before: clock.nanoseconds() - Int64(lifetime) * 1_000_000_000) {
            login?.disconnect(session, .closed)
        }
    }

    private func reason(ofEnd id: ClientID) -> EndReason {
        guard let session = logins.sessions[id], !session.isLeaving,
            peers.hasChanged(session.password, of: session.device)
        else { return .removed }
        return .passwordChanged
    }
}
