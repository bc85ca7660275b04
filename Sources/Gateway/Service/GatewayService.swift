// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import Logging
package import NetworkAddresses
package import Provisioning
package import WireGuardCore

/// All that a gateway does for those who ask: the API, the socket and the command line call it, and nothing else touches the store.
///
/// Each call names its ``Caller``, who is checked in one place (`Caller.check`). It knows no HTTP. All times are UTC, all ids random.
package final class GatewayService: Sendable {
    package let settings: GatewaySettings
    let store: any GatewayStore
    let logger: Logger

    package init(
        store: any GatewayStore, keys: any ServerKeyStore, settings: GatewaySettings, clock: GatewayClock = .system,
        random: RandomSource = RandomSource(), logger: Logger
    ) throws(GatewayError) {
        self.settings = settings
        self.store = store
        self.logger = logger
    }

    private func notYet() -> GatewayError { .unavailable("it is being built") }

    // MARK: - Who asks

    /// Who shows this secret: an API token or a device's credential. Failures are counted for the source and for the secret's first
    /// characters; a secret that is good always passes.
    package func caller(bearer: String?, from source: IPAddress) async throws(GatewayError) -> Caller { throw notYet() }

    // MARK: - What devices ask for

    /// Makes a device, with an invitation or a token of scope `enrol`. The identical request again gives the same device.
    package func enrol(
        bearer: String?, _ request: EnrolmentRequest, from source: IPAddress
    ) async throws(GatewayError) -> Created<EnrolmentGrant> { throw notYet() }

    /// What the device has been given, as it is now.
    package func grant(_ caller: Caller) async throws(GatewayError) -> EnrolmentGrant { throw notYet() }
    /// Moves the end of the device on, where the settings give it one.
    package func renew(_ caller: Caller) async throws(GatewayError) -> EnrolmentGrant { throw notYet() }
    package func rotationNonce(_ caller: Caller) async throws(GatewayError) -> RotationNonce { throw notYet() }
    /// Replaces the device's key. The identical request again gives the same answer.
    package func rotate(_ request: RotationRequest, _ caller: Caller) async throws(GatewayError) -> EnrolmentGrant {
        throw notYet()
    }
    /// All devices of the device's user.
    package func ownDevices(_ caller: Caller) async throws(GatewayError) -> DeviceList { throw notYet() }
    /// Removes a device of the same user.
    package func removeOwnDevice(_ id: DeviceID, _ caller: Caller) async throws(GatewayError) { throw notYet() }

    /// Puts a key into the slot of an `addKey` token, instead of the one before.
    package func addKey(
        token: String, publicKey: PublicKey, from source: IPAddress
    ) async throws(GatewayError) -> EnrolmentGrant { throw notYet() }

    // MARK: - Users

    package func users(_ page: PageRequest, _ caller: Caller) async throws(GatewayError) -> Page<User> {
        throw notYet()
    }
    package func user(_ id: UserID, _ caller: Caller) async throws(GatewayError) -> User { throw notYet() }
    package func user(login: String, _ caller: Caller) async throws(GatewayError) -> User { throw notYet() }
    /// - Parameter creationKey: 1 to 128 characters that the caller made up: the same request with the same key makes nothing new.
    package func addUser(
        _ draft: UserDraft, creationKey: String? = nil, _ caller: Caller
    ) async throws(GatewayError) -> Created<User> { throw notYet() }
    package func updateUser(_ id: UserID, _ update: UserUpdate, _ caller: Caller) async throws(GatewayError) -> User {
        throw notYet()
    }
    /// Removes a user with all devices, tokens and invitations.
    package func removeUser(_ id: UserID, _ caller: Caller) async throws(GatewayError) { throw notYet() }

    // MARK: - Devices

    package func devices(
        of user: UserID? = nil, _ page: PageRequest, _ caller: Caller
    ) async throws(GatewayError) -> Page<Device> { throw notYet() }
    package func device(_ id: DeviceID, _ caller: Caller) async throws(GatewayError) -> Device { throw notYet() }
    /// Makes a device for a stock client. The grant is what its configuration file is written from.
    package func addDevice(
        _ draft: DeviceDraft, creationKey: String? = nil, _ caller: Caller
    ) async throws(GatewayError) -> Created<EnrolmentGrant> { throw notYet() }
    /// The grant of a device that was made for a stock client, its pre-shared key included.
    package func exportedGrant(_ id: DeviceID, _ caller: Caller) async throws(GatewayError) -> EnrolmentGrant {
        throw notYet()
    }
    package func updateDevice(_ id: DeviceID, _ update: DeviceUpdate, _ caller: Caller) async throws(GatewayError)
        -> Device
    { throw notYet() }
    /// Removes a device: its key and credential are good for nothing from then on.
    package func removeDevice(_ id: DeviceID, _ caller: Caller) async throws(GatewayError) { throw notYet() }

    // MARK: - Tokens and invitations

    package func tokens(_ page: PageRequest, _ caller: Caller) async throws(GatewayError) -> Page<Token> {
        throw notYet()
    }
    package func addToken(
        _ draft: TokenDraft, creationKey: String? = nil, _ caller: Caller
    ) async throws(GatewayError) -> Issued<Token> { throw notYet() }
    package func revokeToken(_ id: TokenID, _ caller: Caller) async throws(GatewayError) -> Token { throw notYet() }
    package func invitations(_ page: PageRequest, _ caller: Caller) async throws(GatewayError) -> Page<IssuedInvitation>
    { throw notYet() }
    package func addInvitation(
        _ draft: InvitationDraft, creationKey: String? = nil, _ caller: Caller
    ) async throws(GatewayError) -> Issued<IssuedInvitation> { throw notYet() }
    package func revokeInvitation(_ id: InvitationID, _ caller: Caller) async throws(GatewayError) -> IssuedInvitation {
        throw notYet()
    }

    // MARK: - Rules

    package func rules(of owner: Rule.Owner, _ caller: Caller) async throws(GatewayError) -> [Rule] { throw notYet() }
    /// Puts these in the place of all rules of the owner, in this order.
    package func setRules(
        of owner: Rule.Owner, _ rules: [RuleContent], _ caller: Caller
    ) async throws(GatewayError) -> [Rule] { throw notYet() }

    // MARK: - What there is to see

    package func status(_ caller: Caller) async throws(GatewayError) -> GatewayStatus { throw notYet() }
    /// The latest entries first.
    package func audit(
        _ filter: AuditFilter = AuditFilter(), _ page: PageRequest, _ caller: Caller
    ) async throws(GatewayError) -> Page<AuditEntry> { throw notYet() }

    // MARK: - The gateway's own keys

    package var serverKeys: ServerKeys { get throws(GatewayError) { throw notYet() } }
    /// Makes the next key and announces it: grants name both, and the switch comes after the settings' overlap.
    package func announceServerKey(_ caller: Caller) async throws(GatewayError) -> ServerKeys { throw notYet() }
    package func cancelServerKeyRotation(_ caller: Caller) async throws(GatewayError) { throw notYet() }

    // MARK: - What the runtime needs

    /// All peers, and the change up to which they are up to date.
    package func peers(_ caller: Caller) async throws(GatewayError) -> PeerChanges { throw notYet() }
    /// What has become of peers since a change. Everything (`isComplete`) where so old a change is not known any more.
    package func peerChanges(after sequence: Int64, _ caller: Caller) async throws(GatewayError) -> PeerChanges {
        throw notYet()
    }
    package func changes(after sequence: Int64, limit: Int = 1000, _ caller: Caller) async throws(GatewayError)
        -> [Change]
    { throw notYet() }
    /// Yields when there may be new changes, at once for the first time. Each consumer has a stream of its own.
    package func changeSignals() -> AsyncStream<Void> { AsyncStream { $0.finish() } }
    /// Adds what was counted since the last time.
    package func record(_ activity: [DeviceActivity], _ caller: Caller) async throws(GatewayError) { throw notYet() }
    /// Notes what time has brought: expired devices, users and idle keys, the switch of server keys, old entries of the audit log.
    /// To be called every few seconds.
    package func sweep(_ caller: Caller) async throws(GatewayError) { throw notYet() }
}
