// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import CommandLineSupport
import PacketTunnelTesting
import Synchronization
package import TunnelSystem

/// Records the output of a command.
package final class CapturedConsole: Sendable {
    private let text = Mutex((output: "", error: ""))
    private let writes = Changes()

    package init() {}

    /// A console that writes here.
    package func console(isLive: Bool = false, outputIsWorldAccessible: Bool = false) -> Console {
        Console(
            write: { [self] stream, part in
                text.withLock { text in
                    switch stream {
                    case .output: text.output += part
                    case .error: text.error += part
                    }
                }
                writes.notify()
            }, isLive: isLive, columns: 80, outputIsWorldAccessible: outputIsWorldAccessible)
    }

    package var output: String { text.withLock { $0.output } }
    package var error: String { text.withLock { $0.error } }

    /// Waits until the standard output satisfies a condition; returns whether it did.
    package func waits(until condition: (String) -> Bool) async -> Bool {
        await writes.wait { condition(output) }
    }
}

extension JSON {
    /// The names of an object's members, in their order.
    package var names: [String] {
        guard case .object(let members) = self else { return [] }
        return members.map(\.name)
    }
}
