// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Synchronization

@testable import culvert

/// Keeps what a command writes.
final class CapturedConsole: Sendable {
    private let text = Mutex((output: "", error: ""))
    private let writes = Changes()

    /// A console that writes here.
    func console(isLive: Bool = false, outputIsWorldAccessible: Bool = false) -> Console {
        Console(
            write: { [self] stream, part in
                text.withLock { text in
                    switch stream {
                    case .output: text.output += part
                    case .error: text.error += part
                    }
                }
                writes.tell()
            }, isLive: isLive, columns: 80, outputIsWorldAccessible: outputIsWorldAccessible)
    }

    var output: String { text.withLock { $0.output } }
    var error: String { text.withLock { $0.error } }

    /// Waits until what was written to standard output is as wanted; returns whether it came to that.
    func waits(until condition: (String) -> Bool) async -> Bool {
        await writes.wait { condition(output) }
    }
}

extension JSON {
    /// A member of an object, or nothing.
    subscript(name: String) -> JSON? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.name == name }?.value
    }

    /// The names of an object's members, in their order.
    var names: [String] {
        guard case .object(let members) = self else { return [] }
        return members.map(\.name)
    }
}
