// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// Asks for a secret on the terminal, which does not show it.
package enum HiddenPrompt {
    /// The line that was typed or pasted; nil without a terminal. Whoever has it wipes it.
    package static func read(_ prompt: String) -> [UInt8]? {
        let terminal = SystemCall.open("/dev/tty", O_RDWR)
        guard terminal >= 0 else { return nil }
        defer { SystemCall.close(terminal) }
        var shown = termios()
        guard unsafe tcgetattr(terminal, &shown) == 0 else { return nil }
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO)
        guard unsafe tcsetattr(terminal, TCSAFLUSH, &hidden) == 0 else { return nil }
        defer {
            _ = unsafe tcsetattr(terminal, TCSAFLUSH, &shown)
            StandardStream.write("\n", to: terminal)
        }
        StandardStream.write(prompt, to: terminal)
        // No terminal takes a longer line.
        var line = [UInt8](repeating: 0, count: 4096)
        defer { for index in line.indices { line[index] = 0 } }
        let count = unsafe line.withUnsafeMutableBytes { unsafe SystemCall.read(terminal, into: $0) }
        guard count > 0 else { return nil }
        return Array(line.prefix(count).prefix { $0 != UInt8(ascii: "\n") })
    }
}
