// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// Why a gateway's folder, or a backup of it, cannot be used: for administrators, at the command line and in the log.
package struct GatewayDirectoryError: Error, Hashable, Sendable, CustomStringConvertible, StorageFailure {
    package enum Kind: Hashable, Sendable {
        case other
        /// Another user's rights are in the way, or others have too many.
        case denied
        /// There is no gateway.
        case missing
        /// There is one already.
        case exists
        /// A gateway runs there, or is being made.
        case inUse
        case wrongPassphrase
        /// The settings cannot be used, or another program's files cannot be imported.
        case unusable
        /// What is there is not as it was written.
        case damaged
        /// A later version of this program wrote it.
        case newer
    }

    package var kind: Kind
    package var reason: String
    /// What to do; empty where there is nothing to say.
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
        default: self.init("the database does not do what it should: \(error)")
        }
    }

    package var description: String { fix.isEmpty ? reason : "\(reason): \(fix)" }
}
