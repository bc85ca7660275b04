// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// Reads a secret from the terminal, which does not show it.
package enum HiddenPrompt {
    /// - Parameters:
    ///   - prompt: The prompt on the terminal.
    ///   - name: The name of the secret, such as `password`.
    ///   - otherwise: Another way to pass the secret, for the error's remedy.
    /// - Returns: The line that was typed or pasted, which may be empty. The caller must overwrite it.
    /// - Throws: ``CommandFailure`` if there is no terminal, or if the user cancels with Ctrl-C or Ctrl-D.
    package static func read(
        _ prompt: String, for name: String, otherwise: String
    ) throws(CommandFailure) -> [UInt8] {
        let terminal = SystemCall.open("/dev/tty", O_RDWR)
        defer { if terminal >= 0 { SystemCall.close(terminal) } }
        var shown = termios()
        guard terminal >= 0, unsafe tcgetattr(terminal, &shown) == 0 else {
            throw CommandFailure(
                "there is no terminal to ask for the \(name)", status: ExitStatus.usage, fix: otherwise)
        }
        var hidden = shown
        // Do not let Ctrl-C send a signal, which would leave the terminal in this state. Instead it is a byte that ends
        // the line.
        hidden.c_lflag &= ~tcflag_t(ECHO | ISIG)
        unsafe withUnsafeMutableBytes(of: &hidden.c_cc) { unsafe $0[Int(VEOL)] = Self.interrupt }
        guard unsafe tcsetattr(terminal, TCSAFLUSH, &hidden) == 0 else {
            throw CommandFailure(
                "the terminal would show the \(name): \(SystemError.words(errno))", status: ExitStatus.usage,
                fix: otherwise)
        }
        defer {
            _ = unsafe tcsetattr(terminal, TCSAFLUSH, &shown)
            StandardStream.write("\n", to: terminal)
        }
        StandardStream.write(prompt, to: terminal)
        // A terminal does not accept longer lines.
        var line = [UInt8](repeating: 0, count: 4096)
        defer { wipe(&line) }
        let count = unsafe line.withUnsafeMutableBytes { unsafe SystemCall.read(terminal, into: $0) }
        guard count > 0, line[count - 1] == UInt8(ascii: "\n"), !line.prefix(count).contains(Self.interrupt) else {
            throw CommandFailure("the \(name) was not typed to its end", status: ExitStatus.interrupted)
        }
        return Array(line.prefix(count - 1))
    }

    /// The byte of Ctrl-C.
    private static let interrupt: UInt8 = 3
}
