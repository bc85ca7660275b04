// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// The output of a command, and the properties of its terminal. Tests replace it.
package struct Console: Sendable {
    package enum Stream: Sendable {
        case output
        case error
    }

    /// Writes text without changes.
    package var write: @Sendable (Stream, String) -> Void
    /// Whether standard output is a terminal that accepts escape codes, and the user permits them.
    package var isLive: Bool
    /// Whether standard output is a terminal on which lines can be redrawn, with or without colours.
    package var isTerminal: Bool
    /// The width of the terminal in characters.
    package var columns: Int
    /// Whether standard output is a file that other users can access.
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

    /// Whether escape codes may be written: to a terminal that is not dumb, unless `NO_COLOR` is set (no-color.org).
    package static func allowsEscapeCodes(isTerminal: Bool, environment: (String) -> String?) -> Bool {
        let objection = environment("NO_COLOR") ?? ""
        let terminal = environment("TERM") ?? ""
        return isTerminal && objection.isEmpty && !terminal.isEmpty && terminal != "dumb"
    }
}

/// The size of a terminal in characters.
package struct TerminalSize: Equatable {
    package var columns: Int
    package var rows: Int

    package init(columns: Int = 80, rows: Int = 24) {
        self.columns = columns
        self.rows = rows
    }
}

/// Functions for standard output, standard error and the environment.
package enum StandardStream {
    /// Writes all of `text`. The rest of the text is dropped if the reader has closed its pipe.
    ///
    /// If standard output fails for another reason, such as a full disk, the program ends with status 1, because the
    /// lost output may be a key.
    package static func write(_ text: String, to descriptor: Int32) {
        guard !SystemCall.writeAll(descriptor, Array(text.utf8)), descriptor == 1, errno != EPIPE else { return }
        write("error: cannot write to standard output: \(SystemError.words(errno))\n", to: 2)
        exit(1)
    }

    package static func environment(_ name: String) -> String? {
        ProcessEnvironment.value(name)
    }

    static var columns: Int { terminalSize.columns }

    /// The size of the terminal of standard output; a usual size if it is not a terminal.
    package static var terminalSize: TerminalSize {
        var (columns, rows): (UInt16, UInt16) = (0, 0)
        guard unsafe ctunnel_terminal_size(1, &columns, &rows) == 0, columns > 0 else { return TerminalSize() }
        return TerminalSize(columns: Int(columns), rows: rows > 0 ? Int(rows) : 24)
    }

    /// Whether `descriptor` is a file to which users other than its owner and group have access.
    package static func isWorldAccessible(_ descriptor: Int32) -> Bool {
        guard let status = FileStatus(of: descriptor), status.kind == .file else { return false }
        return status.mode & 0o007 != 0
    }
}
