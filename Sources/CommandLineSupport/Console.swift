// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// Where a command writes, and what is known of that place. Tests put their own in.
package struct Console: Sendable {
    package enum Stream: Sendable {
        case output
        case error
    }

    /// Writes text as it is.
    package var write: @Sendable (Stream, String) -> Void
    /// Whether output goes to a terminal that understands escape codes and may be sent them, colours among them.
    package var isLive: Bool
    /// Whether output goes to a terminal on which lines can be redrawn, colours or not.
    package var isTerminal: Bool
    /// The characters of one line of the terminal.
    package var columns: Int
    /// Whether others than the owner may read the file that output goes to.
    package var outputIsWorldAccessible: Bool

    package init(
        write: @escaping @Sendable (Stream, String) -> Void, isLive: Bool, isTerminal: Bool = false, columns: Int,
        outputIsWorldAccessible: Bool
    ) {
        self.write = write
        self.isLive = isLive
        self.isTerminal = isTerminal
        self.columns = columns
        self.outputIsWorldAccessible = outputIsWorldAccessible
    }

    /// Writes a line to standard output.
    package func line(_ text: String = "") { write(.output, text + "\n") }

    /// Writes a line to standard error.
    package func problem(_ text: String) { write(.error, text + "\n") }

    /// Standard output and error of this process.
    package static var standard: Console {
        Console(
            write: { stream, text in StandardStream.write(text, to: stream == .output ? 1 : 2) },
            isLive: allowsEscapeCodes(isTerminal: isatty(1) == 1, environment: StandardStream.environment),
            isTerminal: allowsEscapeCodes(isTerminal: isatty(1) == 1) { name in
                name == "NO_COLOR" ? nil : StandardStream.environment(name)
            },
            columns: StandardStream.columns, outputIsWorldAccessible: StandardStream.isWorldAccessible(1))
    }

    /// Whether escape codes may be written: to a terminal that is not dumb, unless the user objects (no-color.org).
    package static func allowsEscapeCodes(isTerminal: Bool, environment: (String) -> String?) -> Bool {
        let objection = environment("NO_COLOR") ?? ""
        let terminal = environment("TERM") ?? ""
        return isTerminal && objection.isEmpty && !terminal.isEmpty && terminal != "dumb"
    }
}

/// How many characters fit.
package struct TerminalSize: Equatable {
    package var columns: Int
    package var rows: Int

    package init(columns: Int = 80, rows: Int = 24) {
        self.columns = columns
        self.rows = rows
    }
}

/// What the system tells and takes by descriptor.
package enum StandardStream {
    /// Writes all of `text`; what a closed pipe does not take is dropped.
    ///
    /// Where standard output takes no more for another reason, a full disk for one, the program ends with status 1: what
    /// was asked for is lost, and may be a key.
    package static func write(_ text: String, to descriptor: Int32) {
        guard !SystemCall.writeAll(descriptor, Array(text.utf8)), descriptor == 1, errno != EPIPE else { return }
        write("error: cannot write to standard output: \(SystemError.words(errno))\n", to: 2)
        exit(1)
    }

    package static func environment(_ name: String) -> String? {
        ProcessEnvironment.value(name)
    }

    static var columns: Int { terminalSize.columns }

    /// The size of the terminal that standard output goes to; the usual one where it has none.
    package static var terminalSize: TerminalSize {
        var (columns, rows): (UInt16, UInt16) = (0, 0)
        guard unsafe ctunnel_terminal_size(1, &columns, &rows) == 0, columns > 0 else { return TerminalSize() }
        return TerminalSize(columns: Int(columns), rows: rows > 0 ? Int(rows) : 24)
    }

    /// Whether `descriptor` is a file that others than its owner and group may do something with.
    package static func isWorldAccessible(_ descriptor: Int32) -> Bool {
        guard let status = FileStatus(of: descriptor), status.kind == .file else { return false }
        return status.mode & 0o007 != 0
    }
}
