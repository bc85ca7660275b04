// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import Logging
import NetworkAddresses
import Synchronization

/// Keeps the file of addresses current with few writes.
///
/// After a crash, all addresses in the file rest. So a login needs no write if the file has its addresses for its user already, or for
/// any user: those that are given next are written in advance. All other changes wait for the next regular write.
final class AddressKeeper: Sendable {
    /// The contents of the file; `nil` while it is written, or if it was never written.
    private let owners = Mutex<[IPAddress: String?]?>(nil)
    /// Held while the file is written.
    private let written = Mutex(Written())
    private let contents: @Sendable (_ revision: Int?, _ isLast: Bool) -> (revision: Int, file: AddressFile)?
    private let store: @Sendable (AddressFile) throws(CommandFailure) -> Void
    private let logger: Logger

    private struct Written {
        var revision: Int?
        var problem: CommandFailure?
    }

    /// - Parameters:
    ///   - contents: Makes the file's contents if their revision is another than this one; the last ones after all sessions have ended.
    ///   - store: Writes the file. It is on disk when this returns.
    init(
        logger: Logger,
        contents: @escaping @Sendable (_ revision: Int?, _ isLast: Bool) -> (revision: Int, file: AddressFile)?,
        store: @escaping @Sendable (AddressFile) throws(CommandFailure) -> Void
    ) {
        self.logger = logger
        self.contents = contents
        self.store = store
    }

    /// Whether these addresses rest after a crash, and no other user gets them before.
    func isStored(_ addresses: [IPAddress], of login: String) -> Bool {
        owners.withLock { owners in
            guard let owners else { return addresses.isEmpty }
            return addresses.allSatisfy { address in
                guard let owner = owners[address] else { return false }
                return owner == nil || owner == login
            }
        }
    }

    /// Writes the file, unless it is current. It waits for the disk.
    /// - Parameter isLast: Whether the server has ended all sessions.
    func write(isLast: Bool = false) {
        written.withLock { written in
            // An address that is taken from now on may not be in the new file.
            let before = owners.withLock { owners in
                defer { owners = nil }
                return owners
            }
            guard let new = contents(isLast ? nil : written.revision, isLast) else {
                return owners.withLock { $0 = before }
            }
            var file = new.file
            file.isRunning = isLast ? nil : true
            do throws(CommandFailure) {
                try store(file)
                written = Written(revision: new.revision)
                let stored = Dictionary(file.addresses.map { ($0.address, $0.login) }) { first, _ in first }
                owners.withLock { $0 = stored }
            } catch {
                if error != written.problem {
                    logger.error("cannot write which addresses users have, will retry: \(error)")
                }
                written.problem = error
                owners.withLock { $0 = before }
            }
        }
    }
}
