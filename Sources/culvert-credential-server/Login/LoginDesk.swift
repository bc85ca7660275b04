// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Logging
import NetworkAddresses
import PacketTunnel
import PasswordHashing
import Synchronization
import TunnelSystem

/// Which addresses clients get.
protocol AddressSource: Sendable {
    /// Says which addresses belong to users.
    mutating func keep(_ addresses: [IPAddress])
    /// An address of each family, of `own` where that has one; nil where there are none left.
    /// - Parameter login: whom they are for. What it gave back it may get again at once.
    mutating func take(own: [IPAddress], for login: String, at now: Int64) -> [IPAddress]?
    mutating func give(back addresses: [IPAddress], of login: String, at now: Int64)
    /// The addresses that the next run must know of.
    /// - Parameter isLast: Whether all sessions have ended.
    func file(at now: Int64, isLast: Bool) -> AddressFile
}

/// Verifies logins against the file of users, and tracks the sessions. A call may hash a password, so it needs a thread that has no
/// other work. Several threads may call at the same time.
///
/// A wrong password and an unknown login are alike in the answer, in what it takes (one hash, of a cost that users have) and in
/// what is counted.
final class LoginDesk<SessionID: Hashable & Sendable>: Sendable {
    enum Judgement: Hashable, Sendable {
        case accepted([IPAddress])
        case wrong
        /// There were too many failures or logins recently: attempts are refused for this time.
        case tooEarly(seconds: Int)
        /// No address is left.
        case full
        /// The user was changed again and again while the password was hashed: a later attempt may succeed.
        case changed
        case unavailable
    }

    /// Of what happens, what others have to know.
    struct Effects: Sendable {
        /// Ends a session. Nothing where it has not begun yet, or is over.
        var disconnect: @Sendable (SessionID) -> Void = { _ in }
        /// Ends a session whose client may log in again immediately. Does nothing if it has not begun yet, or has ended.
        var expire: @Sendable (SessionID) -> Void = { _ in }
        /// Keeps packets of these addresses out, before whatever is asked for later. Called under the desk's lock: nobody gets one
        /// of them in between. It must not wait, nor call the desk.
        var shutOut: @Sendable ([IPAddress]) -> Void = { _ in }
        /// Nanoseconds of a clock that goes forward only.
        var now: @Sendable () -> Int64
        /// Whether a hash is that of a password.
        var matches: @Sendable (PasswordHash, [UInt8]) -> Bool = { $0.matches($1) }
    }

    private struct Session {
        var login: String
        var password: PasswordHash
        /// Those that it still has: its user's own are the next session's from the moment that this begins.
        var addresses: [IPAddress]
        var since: Int64
        /// Later sessions have higher ones.
        var number: Int
        /// Whether it was told to end, and has not said that it has.
        var isLeaving = false
    }

    private struct State: ~Copyable {
        var users: [String: User] = [:]
        /// The costs that users' passwords have: a login that nobody has is as expensive as one of them.
        var costs: [PasswordHash.Cost] = []
        private(set) var sessions: [SessionID: Session] = [:]
        /// The same by their users.
        private(set) var owned: [String: Set<SessionID>] = [:]
        var lastNumber = 0
        var log = BoundedLog()
        var addresses: any AddressSource {
            didSet { revision += 1 }
        }
        /// Increases with each change of `addresses`.
        private(set) var revision = 0

        init(addresses: any AddressSource) { self.addresses = addresses }

        mutating func set(_ id: SessionID, _ session: Session) {
            sessions[id] = session
            owned[session.login, default: []].insert(id)
        }

        mutating func remove(_ id: SessionID) -> Session? {
            guard let session = sessions.removeValue(forKey: id) else { return nil }
            owned[session.login]?.remove(id)
            if owned[session.login]?.isEmpty == true { owned[session.login] = nil }
            return session
        }
    }

    private let state: Mutex<State>
    /// The tunnel's server asks for known logins under its own lock, so this one is held for no other work.
    private let limiter: Mutex<LoginLimiter>
    private let defaultCost: PasswordHash.Cost
    private let sessionsPerUser: Int
    private let effects: Effects
    private let logger: Logger
    /// Which cost a login has that nobody has: the same each time, and for nobody to know.
    private let secret = UInt64.random(in: 0...UInt64.max)

    init(
        cost: PasswordHash.Cost, limits: LoginLimiter.Limits, sessionsPerUser: Int, addresses: some AddressSource,
        logger: Logger, effects: Effects
    ) {
        defaultCost = cost
        self.sessionsPerUser = max(sessionsPerUser, 1)
        self.effects = effects
        self.logger = logger
        let successes = LoginLimiter.Successes(sessionsPerUser: sessionsPerUser)
        limiter = Mutex(LoginLimiter(limits, successes: successes))
        state = Mutex(State(addresses: addresses))
    }

    // MARK: - Users

    /// Takes the users as they are now. Sessions of those that are gone, or whose password or addresses are others, end.
    func use(_ file: UserFile) {
        state.withLock { state in
            state.users = Dictionary(file.users.map { ($0.login, $0) }) { first, _ in first }
            state.costs = file.users.map(\.password.cost)
            state.addresses.keep(file.users.flatMap(\.addresses))
        }
        look()
    }

    /// Ends sessions that are to be over: those of users that are gone or whose password or addresses are others, those that made
    /// room, and those that have lasted long enough. To be called again and again: who is told to end before its client has its
    /// answer has not begun yet, and does not hear it.
    /// - Parameter lifetime: how long a session may last, in seconds; 0 for as long as it likes.
    func look(lifetime: Int = 0) {
        let oldest = lifetime > 0 ? effects.now() - Int64(lifetime) * 1_000_000_000 : Int64.min
        let (over, expired) = state.withLock { state -> ([SessionID], [SessionID]) in
            let over = state.sessions.filter { _, session in
                guard !session.isLeaving, let user = state.users[session.login] else { return true }
                return user.password != session.password || !user.addresses.allSatisfy(session.addresses.contains)
            }
            let expired = state.sessions.filter { $0.value.since < oldest && over[$0.key] == nil }
            return (Array(over.keys), Array(expired.keys))
        }
        over.forEach(effects.disconnect)
        expired.forEach(effects.expire)
    }

    /// The uses of addresses that the next run must know of, if they may have changed. They are collected without the lock, which logins
    /// need.
    /// - Parameters:
    ///   - revision: The revision that is stored; `nil` if no revision is.
    ///   - isLast: Whether all sessions have ended.
    func changedAddresses(since revision: Int?, isLast: Bool = false) -> (revision: Int, file: AddressFile)? {
        let now = effects.now()
        let changed = state.withLock { state in
            state.revision == revision ? nil : (revision: state.revision, addresses: state.addresses)
        }
        return changed.map { ($0.revision, $0.addresses.file(at: now, isLast: isLast)) }
    }

    /// The addresses among a session's that do not belong to its user.
    func borrowed(_ addresses: [IPAddress], of login: String) -> [IPAddress] {
        let own = state.withLock { $0.users[login]?.addresses ?? [] }
        return addresses.filter { !own.contains($0) }
    }

    /// How many sessions there are.
    var sessionCount: Int { state.withLock { $0.sessions.count { !$0.value.isLeaving } } }

    // MARK: - Logins

    /// Whether a login has succeeded from an address recently (``LoginLimiter/isKnown(_:from:at:)``).
    func isKnown(_ login: String, from source: IPAddress) -> Bool {
        let now = effects.now()
        return limiter.withLock { $0.isKnown(login, from: source, at: now) }
    }

    func judge(_ id: SessionID, login: String, password: SecretBytes, from source: IPAddress) -> Judgement {
        let now = effects.now()
        let wait = limiter.withLock { $0.wait(from: source, as: login, at: now) }
        guard wait == 0 else {
            let seconds = Int((wait + 999_999_999) / 1_000_000_000)
            return refuse(.tooEarly(seconds: seconds), login, source, "too many attempts, \(seconds) s to wait")
        }
        var bytes = password.bytes
        defer { wipe(&bytes) }
        // Once more if the password was changed while it was hashed.
        for _ in 0..<2 {
            if let judgement = judge(id, login, bytes, source) { return judgement }
        }
        return refuse(.changed, login, source, "the user was changed while the password was hashed")
    }

    /// - Returns: `nil` if the user's password was changed during the hash.
    private func judge(_ id: SessionID, _ login: String, _ password: [UInt8], _ source: IPAddress) -> Judgement? {
        let user = user(login)
        let hash = user?.password ?? .dummy(cost(ofUnknown: login))
        let isRight = effects.matches(hash, password)
        if let user, isRight { return begin(id, user, source) }
        guard self.user(login)?.password == user?.password else { return nil }
        let now = effects.now()
        limiter.withLock { $0.failed(from: source, as: login, at: now) }
        return refuse(.wrong, login, source, "wrong password or unknown login")
    }

    private func user(_ login: String) -> User? { state.withLock { $0.users[login] } }

    private func cost(ofUnknown login: String) -> PasswordHash.Cost {
        var hasher = Hasher()
        hasher.combine(secret)
        hasher.combine(login)
        let number = UInt(bitPattern: hasher.finalize())
        return state.withLock { state in
            state.costs.isEmpty ? defaultCost : state.costs[Int(number % UInt(state.costs.count))]
        }
    }

    /// - Parameter verified: The user when its password was hashed.
    /// - Returns: `nil` if the user's password was changed since.
    private func begin(_ id: SessionID, _ verified: User, _ source: IPAddress) -> Judgement? {
        let result = state.withLock { state -> (User, [IPAddress]?, [SessionID])? in
            guard let user = state.users[verified.login], user.password == verified.password else { return nil }
            let now = effects.now()
            // Of the user's sessions the oldest make room, and whoever has an address of the user's own.
            let own = (state.owned[user.login] ?? []).compactMap { id in state.sessions[id].map { (id, $0) } }
                .filter { !$0.1.isLeaving }.sorted { $0.1.number < $1.1.number }.map(\.0)
            let kept = user.addresses.isEmpty ? sessionsPerUser - 1 : 0
            let holders =
                user.addresses.isEmpty
                ? [] : state.sessions.filter { $0.value.addresses.contains(where: user.addresses.contains) }.map(\.key)
            let over = Set(own.prefix(max(own.count - kept, 0)) + holders)
            for old in over {
                guard var session = state.sessions[old] else { continue }
                session.isLeaving = true
                state.addresses.give(
                    back: session.addresses.filter(user.addresses.contains), of: session.login, at: now)
                session.addresses.removeAll(where: user.addresses.contains)
                state.set(old, session)
            }
            let addresses = state.addresses.take(own: user.addresses, for: user.login, at: now)
            if let addresses {
                state.lastNumber += 1
                let session = Session(
                    login: user.login, password: user.password, addresses: addresses, since: now,
                    number: state.lastNumber)
                state.set(id, session)
            }
            return (user, addresses, Array(over))
        }
        guard let (user, addresses, over) = result else { return nil }
        let now = effects.now()
        limiter.withLock { limiter in
            limiter.succeeded(from: source, as: user.login, at: now)
            limiter.charge(user.login, at: now)
        }
        over.forEach(effects.disconnect)
        guard let addresses else { return refuse(.full, user.login, source, "no address is left") }
        logger.info("'\(user.login)' logged in from \(source): \(IPAddress.list(addresses))")
        return .accepted(addresses)
    }

    /// Forgets a session. The addresses that it still has, and no other session, are shut out and free.
    /// - Parameter isLast: whether nobody comes any more, and so nobody needs to be shut out.
    func ended(_ id: SessionID, _ reason: String, isLast: Bool = false) {
        let session = state.withLock { state in
            let session = state.remove(id)
            if let session, !session.addresses.isEmpty {
                if !isLast { effects.shutOut(session.addresses) }
                state.addresses.give(back: session.addresses, of: session.login, at: effects.now())
            }
            return session
        }
        if let session { logger.info("the session of '\(session.login)' is over: \(reason)") }
    }

    /// Logs a refusal, without what somebody typed unless a user is called so: it may be a password.
    private func refuse(
        _ judgement: Judgement, _ login: String, _ source: IPAddress, _ why: String
    ) -> Judgement {
        let now = effects.now()
        let lines = state.withLock { state in
            let name = state.users[login] == nil ? "an unknown login" : "'\(login)'"
            return state.log.lines("\(name) was refused from \(source): \(why)", at: now)
        }
        for line in lines { logger.warning("\(line)") }
        return judgement
    }
}
