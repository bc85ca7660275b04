// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The error of an operation of the gateway. Its ``code`` does not change between versions, so that programs can
/// compare it.
package enum GatewayError: Error, Hashable, Sendable {
    /// The secret is missing or unknown.
    case unauthorized
    /// The device of the credential was removed.
    case deviceUnknown
    case deviceDisabled
    case deviceExpired
    case userDisabled
    case userExpired
    case tokenExpired
    case invitationExpired
    case invitationRevoked
    case invitationUsed
    /// The caller may not do this.
    case forbidden
    /// There were too many recent failures. The gateway checks no secret before this number of seconds has passed.
    case tooManyFailures(retryAfterSeconds: Int)
    /// The caller's credential is valid but made too many changes. The next one is possible after this number of
    /// seconds.
    case tooManyChanges(retryAfterSeconds: Int)
    /// Another request has changed the list since the caller read it.
    case changed(String)
    /// The user has the largest allowed number of devices.
    case deviceLimit(Int)
    /// The gateway has the largest allowed number of devices.
    case gatewayFull(Int)
    case poolFull(IPPrefix, inUse: Int, resting: Int)
    case keyInUse
    case loginInUse(String)
    case addressInUse(IPAddress)
    case subnetInUse(IPPrefix)
    /// The resource does not exist.
    case notFound(String)
    /// The gateway serves no login tunnel.
    case noLoginTunnel
    /// The gateway does not serve WireGuard.
    case noWireGuard
    /// A field is not valid.
    case invalid(field: String, problem: String)
    /// The nonce was used, is too old, or was never issued.
    case nonceUnknown
    /// The proof of a rotation is wrong.
    case proofWrong
    /// An earlier request with the same creation key had different content, or the gateway no longer has the reply to
    /// it.
    case creationConflict(subject: String?)
    /// A next server key is announced already, or no key is announced.
    case serverKeyRotation(String)
    /// The device or user was disabled, but that is not saved yet. The other changes of the request were not made.
    case onlyDisabled
    /// The store or the disk has failed. The reason is for the log.
    case unavailable(String)
}

extension GatewayError {
    /// The kind of an error, for each protocol that reports it.
    package enum Category: Hashable, Sendable {
        case unauthorized, forbidden, notFound, conflict, changed, invalid, tooMany, full, unavailable
    }

    package var category: Category {
        switch self {
        case .unauthorized, .deviceUnknown: .unauthorized
        case .deviceDisabled, .deviceExpired, .userDisabled, .userExpired, .tokenExpired, .invitationExpired,
            .invitationRevoked, .invitationUsed, .forbidden, .deviceLimit, .nonceUnknown, .proofWrong:
            .forbidden
        case .tooManyFailures, .tooManyChanges: .tooMany
        case .changed: .changed
        case .gatewayFull, .poolFull: .full
        case .keyInUse, .loginInUse, .addressInUse, .subnetInUse, .creationConflict, .serverKeyRotation,
            .noWireGuard:
            .conflict
        case .notFound, .noLoginTunnel: .notFound
        case .invalid: .invalid
        case .unavailable, .onlyDisabled: .unavailable
        }
    }

    /// The code for programs.
    package var code: String {
        switch self {
        case .unauthorized: "unauthorized"
        case .deviceUnknown: "deviceUnknown"
        case .deviceDisabled: "deviceDisabled"
        case .deviceExpired: "deviceExpired"
        case .userDisabled: "userDisabled"
        case .userExpired: "userExpired"
        case .tokenExpired: "tokenExpired"
        case .invitationExpired: "invitationExpired"
        case .invitationRevoked: "invitationRevoked"
        case .invitationUsed: "invitationUsed"
        case .forbidden: "forbidden"
        case .tooManyFailures: "tooManyFailures"
        case .tooManyChanges: "tooManyChanges"
        case .changed: "changed"
        case .deviceLimit: "deviceLimit"
        case .gatewayFull: "gatewayFull"
        case .poolFull: "poolFull"
        case .keyInUse: "keyInUse"
        case .loginInUse: "loginInUse"
        case .addressInUse: "addressInUse"
        case .subnetInUse: "subnetInUse"
        case .notFound, .noLoginTunnel: "notFound"
        case .noWireGuard: "noWireGuard"
        case .invalid: "invalid"
        case .nonceUnknown: "nonceUnknown"
        case .proofWrong: "proofWrong"
        case .creationConflict: "creationConflict"
        case .serverKeyRotation: "serverKeyRotation"
        case .unavailable, .onlyDisabled: "unavailable"
        }
    }
}

extension GatewayError: CustomStringConvertible {
    /// The error and its remedy, if there is one. It contains no secret and may be shown to the caller.
    package var description: String {
        switch self {
        case .unauthorized: "the secret is missing or unknown"
        case .deviceUnknown: "the gateway no longer knows this device: enrol again with a new invitation"
        case .deviceDisabled: "this device is disabled: ask the gateway's administrator"
        case .deviceExpired: "this device has expired: ask the gateway's administrator"
        case .userDisabled: "the user is disabled: ask the gateway's administrator"
        case .userExpired: "the user has expired: ask the gateway's administrator"
        case .tokenExpired: "the token has expired or was revoked"
        case .invitationExpired: "the invitation has expired: ask for a new one"
        case .invitationRevoked: "the invitation was revoked: ask for a new one"
        case .invitationUsed:
            "the invitation was already used; if you did not use it, inform the gateway's administrator"
        case .forbidden: "this secret does not permit this operation"
        case .tooManyFailures(let seconds): "there were too many failures: try again in \(seconds) s"
        case .tooManyChanges(let seconds): "there were too many changes: try again in \(seconds) s"
        case .changed(let what):
            "another request has changed this list of \(what): read it again and repeat the change"
        case .deviceLimit(let limit): "the user has reached the limit of \(limit) devices: remove one"
        case .gatewayFull(let limit): "the gateway has reached the limit of \(limit) devices"
        case .poolFull(let network, let inUse, let resting):
            "no address of \(network) is free: \(inUse) are in use and \(resting) are in cooldown"
        case .keyInUse: "another device uses this key: make a new one"
        case .loginInUse(let login): "a user '\(login)' already exists"
        case .addressInUse(let address): "\(address) belongs to another device or user, or is in cooldown"
        case .subnetInUse(let network): "\(network) overlaps a network that is in use"
        case .notFound(let what): "this \(what) does not exist"
        case .noLoginTunnel:
            "this gateway does not serve the login tunnel: set loginTunnel.isEnabled in \(GatewaySettings.fileName) and restart it"
        case .noWireGuard:
            "this gateway serves only the login tunnel: set servesWireGuard in \(GatewaySettings.fileName) and restart it"
        case .invalid(let field, let problem): "\(field): \(problem)"
        case .nonceUnknown: "the nonce was used, is too old or is unknown: request a new one"
        case .proofWrong: "the proof does not show that the caller has the old key"
        case .creationConflict(let subject):
            "this creation key was used before" + (subject.map { " and made \($0)" } ?? "")
        case .serverKeyRotation(let problem): problem
        case .onlyDisabled:
            "the disabling is in effect but not saved, and the other changes were not made: the database refuses writes"
        case .unavailable: "the gateway cannot do this now: try again later"
        }
    }
}
