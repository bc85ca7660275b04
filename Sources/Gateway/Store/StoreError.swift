// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// Why a store did not do something.
package enum StoreError: Error, Hashable, Sendable {
    /// What was to be read or changed is not there.
    case notFound
    /// Something that has to be unique is there already.
    case exists(Conflict)
    case poolFull(IPPrefix, inUse: Int, resting: Int)
    case deviceLimit(Int)
    case gatewayFull(Int)
    /// The list has another version than the caller expects.
    case changed
    /// The user or device has as many rules as allowed.
    case ruleLimit(Int)
    /// Another request with this creation key asked for something else.
    case creationConflict(subject: String)
    /// The database is of a later version of this program.
    case newerVersion(String)
    /// The file, the disk or the server does not do what it should.
    case unavailable(String)

    package enum Conflict: Hashable, Sendable {
        case login, key, credential, secret
        case address(IPAddress)
        case subnet(IPPrefix)
    }
}
