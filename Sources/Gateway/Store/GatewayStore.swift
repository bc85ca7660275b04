// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
package import NetworkAddresses
package import WireGuardCore

/// Where a gateway keeps users, devices, secrets' hashes, rules and the log of what was done.
///
/// Each operation is one transaction: all of it lasts, also through a crash right after it has returned, or nothing of it is there.
/// Whatever has to be unique is so by constraint. Each that changes what the runtime follows notes a ``Change`` with the next sequence
/// number, and each that somebody asked for writes its ``AuditRecord``, in the same transaction. Times, ids and hashes are the
/// caller's. A store has neither clock nor randomness, and nobody above it knows which one it is.
package protocol GatewayStore: Sendable {
    // MARK: Users

    /// - Throws: `.exists(.login)`, `.exists(.address)`, `.creationConflict`.
    func add(
        _ user: User, _ limits: DeviceLimits, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<User>
    /// Changes a user. If it has other addresses then, devices of its logins without them are removed.
    /// - Throws: `.exists(.login)`, `.exists(.address)`.
    func update(
        user: UserID, _ update: UserUpdate, _ limits: DeviceLimits, _ audit: AuditRecord
    ) async throws(StoreError) -> User
    /// Removes the user with devices, tokens, invitations and rules. Addresses of devices begin to rest. Fixed addresses without a
    /// device are available once they have rested since their last use.
    func remove(user: UserID, _ audit: AuditRecord) async throws(StoreError)
    func user(_ id: UserID) async throws(StoreError) -> User?
    func user(login: String) async throws(StoreError) -> User?
    /// By login.
    func users(_ page: PageRequest) async throws(StoreError) -> Page<User>

    /// The password of the first user with a password whose ID is at least this one, or of the first of all.
    func password(near id: UserID) async throws(StoreError) -> StoredPassword?

    // MARK: Devices

    /// Uses an invitation, or a token, to make a device: checks both, the limits, gives addresses, inserts the device, notes the change
    /// and writes the log. All or nothing.
    /// - Throws: `.poolFull`, `.deviceLimit`, `.gatewayFull`, `.exists(.key)`, `.exists(.credential)`; then nothing was used.
    func enrol(_ enrolment: Enrolment) async throws(StoreError) -> EnrolmentOutcome
    /// Adds a device whose key somebody else has made.
    /// - Parameter device: with the addresses that it has to have; the others are given here.
    func add(
        _ device: Device, _ limits: DeviceLimits, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<DeviceOfUser>
    func update(device: DeviceID, _ update: DeviceUpdate, _ limits: DeviceLimits, _ audit: AuditRecord)
        async throws(StoreError) -> DeviceOfUser
    /// - Parameter owner: only if it is this user's.
    func remove(device: DeviceID, of owner: UserID?, _ audit: AuditRecord) async throws(StoreError)
    func device(_ id: DeviceID) async throws(StoreError) -> DeviceOfUser?
    func device(credential: SecretHash) async throws(StoreError) -> DeviceOfUser?
    /// By id.
    func devices(of user: UserID?, _ page: PageRequest) async throws(StoreError) -> Page<Device>
    /// Moves the expiry on, but not beyond the one that an administrator has set.
    func renew(device: DeviceID, until end: Date, _ audit: AuditRecord) async throws(StoreError) -> DeviceOfUser
    /// Puts a key in the place of the old one, if it is still that.
    /// - Throws: `.notFound` where the old key is not the device's any more.
    func rotate(
        device: DeviceID, from old: PublicKey, to new: PublicKey, _ rotation: SecretHash, _ audit: AuditRecord
    ) async throws(StoreError) -> DeviceOfUser
    /// Puts a key into a slot, whichever was there before, and gives the slot addresses where it has none.
    func setKey(
        slot: DeviceID, _ key: PublicKey, _ limits: DeviceLimits, _ audit: AuditRecord
    ) async throws(StoreError) -> DeviceOfUser

    // MARK: Logins

    /// Gives a login a device of its user: one that no session has, with the addresses that it had; a new one where there may be more;
    /// else the one whose session is the oldest.
    /// - Throws: `.poolFull`, `.deviceLimit`, `.gatewayFull`.
    func lease(_ lease: LoginLease) async throws(StoreError) -> LoginLeaseOutcome

    // MARK: Secrets

    /// - Parameter slot: for a token of scope `addKey`, the device that it puts keys into; it is made with it, and goes with it.
    func add(
        _ token: Token, slot: Device?, _ limits: DeviceLimits, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<Token>
    func revoke(token: TokenID, _ audit: AuditRecord) async throws(StoreError) -> Token
    func token(_ hash: SecretHash) async throws(StoreError) -> Token?
    func token(_ id: TokenID) async throws(StoreError) -> Token?
    func tokens(_ page: PageRequest) async throws(StoreError) -> Page<Token>
    /// Notes that a token was good for something: no entry of the log.
    func noteUse(of token: TokenID, at now: Date) async throws(StoreError)
    func add(
        _ invitation: IssuedInvitation, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<IssuedInvitation>
    func revoke(invitation: InvitationID, _ audit: AuditRecord) async throws(StoreError) -> IssuedInvitation
    func invitation(_ id: InvitationID) async throws(StoreError) -> IssuedInvitation?
    func invitations(_ page: PageRequest) async throws(StoreError) -> Page<IssuedInvitation>

    // MARK: Rules

    func rules(of owner: Rule.Owner) async throws(StoreError) -> [Rule]
    /// Replaces the rules of the owner with these.
    /// - Parameter versions: The versions of the list that may be replaced (``Rule/version(of:)``), or `nil` for any.
    /// - Throws: `.changed` if the list has another version.
    func setRules(
        of owner: Rule.Owner, _ rules: [Rule], ifVersion versions: [String]?, _ audit: AuditRecord
    ) async throws(StoreError)
    /// Adds a rule to the rules of its owner.
    /// - Parameter limit: The most rules that the owner may have then.
    /// - Returns: All rules of the owner.
    /// - Throws: `.ruleLimit`, `.creationConflict`.
    func add(
        _ rule: Rule, isFirst: Bool, limit: Int, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<[Rule]>

    /// Removes one rule of its owner. The other rules keep their IDs.
    /// - Returns: The rules that are left.
    /// - Throws: `.notFound` if the owner has no such rule.
    func remove(rule: RuleID, of owner: Rule.Owner, _ audit: AuditRecord) async throws(StoreError) -> [Rule]

    // MARK: What has changed

    func changes(after sequence: Int64, limit: Int) async throws(StoreError) -> [Change]
    /// - Parameter sequence: nil, or one so old that changes after it are forgotten: all devices.
    func peers(after sequence: Int64?) async throws(StoreError) -> Feed<PeerRecord>
    /// Adds to what was counted before. Of devices that are gone it is added to the whole.
    func record(_ activity: [DeviceActivity]) async throws(StoreError)
    /// Notes what has ended by itself, each once, and forgets what is too old.
    func sweep(_ sweep: Sweep) async throws(StoreError) -> SweepOutcome

    // MARK: What there is to see

    /// The latest first.
    func audit(_ filter: AuditFilter, _ page: PageRequest) async throws(StoreError) -> Page<AuditEntry>
    /// Writes an entry about something that is not in the store, and notes a change where it is one.
    func append(_ audit: AuditRecord, change: Change.Subject?) async throws(StoreError)
    func counts(at now: Date) async throws(StoreError) -> StoreCounts
    /// - Parameter restSince: addresses that were given back after this rest.
    func pools(_ servers: [InterfaceAddress], restSince: Date) async throws(StoreError) -> [PoolFigures]
    func leases(_ page: PageRequest) async throws(StoreError) -> Page<AddressLease>

    // MARK: Cooldowns

    /// Returns a page of the addresses that were released after `restSince`, ordered by address.
    func cooldowns(
        _ filter: CooldownFilter, restSince: Date, _ page: PageRequest
    ) async throws(StoreError) -> Page<Cooldown>
    /// Ends the cooldown of addresses that were released after `restSince`, so that devices can get them.
    /// - Returns: The number of these addresses. If it is 0, nothing is written.
    func clearCooldowns(
        _ filter: CooldownFilter, restSince: Date, _ audit: AuditRecord
    ) async throws(StoreError) -> Int
}

extension GatewayStore {
    /// The limits of changes that give no address.
    private var noLimits: DeviceLimits {
        DeviceLimits(servers: [], restSince: .distantPast, devicesPerUser: 0, devices: 0)
    }

    /// Adds a user without addresses.
    package func add(
        _ user: User, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<User> {
        try await add(user, noLimits, creation, audit)
    }

    /// Changes something else than the addresses of a user.
    package func update(
        user: UserID, _ update: UserUpdate, _ audit: AuditRecord
    ) async throws(StoreError) -> User {
        try await self.update(user: user, update, noLimits, audit)
    }

    /// Replaces the rules of the owner with these, in any version.
    package func setRules(of owner: Rule.Owner, _ rules: [Rule], _ audit: AuditRecord) async throws(StoreError) {
        try await setRules(of: owner, rules, ifVersion: nil, audit)
    }
}
