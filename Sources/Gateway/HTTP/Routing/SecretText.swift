// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning
import Synchronization
import TunnelSystem

/// A password or passphrase in a request. The handler removes the bytes and overwrites them. The request's body and
/// its JSON contain further copies, which are not overwritten.
package final class SecretText: Sendable {
    private let bytes: Mutex<[UInt8]>

    /// - Parameter bytes: The text in UTF-8.
    package init(_ bytes: [UInt8]) { self.bytes = Mutex(bytes) }

    fileprivate init(text: String) { bytes = Mutex(Array(text.utf8)) }

    deinit {
        var rest = removeBytes()
        wipe(&rest)
    }

    /// Returns the bytes on the first call, and an empty array afterwards.
    func removeBytes() -> [UInt8] {
        bytes.withLock { bytes in
            defer { bytes = [] }
            return bytes
        }
    }

    fileprivate var text: String { bytes.withLock { String(decoding: $0, as: UTF8.self) } }
}

extension BodyFormat where Body == SecretText {
    /// The body format of an object with one secret text.
    static func secret(_ name: String, _ format: ValueFormat<String>) -> BodyFormat {
        .complete(CompleteMessage(SecretText.init(text:), TypedField(name, \.text, format)))
    }
}
