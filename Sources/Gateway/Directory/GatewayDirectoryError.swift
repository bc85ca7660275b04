// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// An error of a gateway's folder or of a backup, for administrators: at the command line and in the log.
package struct GatewayDirectoryError: Error, Hashable, Sendable, CustomStringConvertible, StorageFailure {
    package enum Kind: Hashable, Sendable {
        case other
        /// This user may not access a file, or other users have too many rights.
        case denied
        /// The folder does not contain a gateway.
        case missing
        /// The folder already contains a gateway, or a file that must be new exists.
        case exists
        /// A gateway is running in the folder or being made there.
        case inUse
        case wrongPassphrase
        /// The settings are not valid, or another program's files cannot be imported.
        case unusable
        /// The content of a file fails its checksum.
        case damaged
        /// A later version of this program wrote the database.
        case newer
    }

    package var kind: Kind
    package var reason: String
    /// The remedy; empty if there is none.
    package var fix: String

    package init(_ reason: String, kind: Kind = .other, fix: String = "") {
        self.kind = kind
        self.reason = reason
        self.fix = fix
    }

    package init(_ problem: StorageProblem) {
        self.init(problem.reason, kind: problem.isDenied ? .denied : .other, fix: problem.fix)
    }

    package init(_ error: StoreError) {
        switch error {
        case .newerVersion(let reason): self.init(reason, kind: .newer)
        case .unavailable(let reason): self.init(reason)
        default: self.init("the database has failed: \(error)")
        }
    }

    /// The error of a database that cannot be opened.
    /// - Parameter isReadOnly: Whether the folder's file system is mounted read-only.
    init(_ error: StoreError, folder: String, isReadOnly: Bool) {
        self.init(error)
        if isReadOnly {
            fix = "the file system of \(folder) is read-only: repair the disk, and mount it writable"
        }
    }

    package var description: String { fix.isEmpty ? reason : "\(reason): \(fix)" }
}
