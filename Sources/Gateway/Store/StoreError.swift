// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The error of a store operation.
package enum StoreError: Error, Hashable, Sendable {
    /// The record to read or change does not exist.
    case notFound
    /// A record with this unique value exists.
    case exists(Conflict)
    case poolFull(IPPrefix, inUse: Int, resting: Int)
    case deviceLimit(Int)
    case gatewayFull(Int)
    /// The list does not have the version that the caller expects.
    case changed
    /// The user or device already has the largest allowed number of rules.
    case ruleLimit(Int)
    /// An earlier request with this creation key had different content.
    case creationConflict(subject: String)
    /// A later version of this program wrote the database.
    case newerVersion(String)
    /// The file, the disk or the database has failed.
    case unavailable(String)

    /// The error of writes to a database that was opened on a read-only file system.
    static let readOnly = StoreError.unavailable(readOnlyReason)
    static let readOnlyReason =
        "its file system was read-only at the start: repair the disk, mount it writable, and restart the gateway"

    package enum Conflict: Hashable, Sendable {
        case login, key, credential, secret
        case address(IPAddress)
        case subnet(IPPrefix)
    }
}
