// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Where a command writes, and what is known of that place. Tests put their own in.
struct Console: Sendable {
    enum Stream: Sendable {
        case output
        case error
    }

    /// Writes text as it is.
    var write: @Sendable (Stream, String) -> Void
    /// Whether output goes to a terminal that understands escape codes and may be sent them, colours among them.
    var isLive: Bool
    /// Whether output goes to a terminal on which lines can be redrawn, colours or not.
    var isTerminal = false
    /// The characters of one line of the terminal.
    var columns: Int
    /// Whether others than the owner may read the file that output goes to.
    var outputIsWorldAccessible: Bool

    /// Writes a line to standard output.
    func line(_ text: String = "") { write(.output, text + "\n") }

    /// Writes a line to standard error.
    func problem(_ text: String) { write(.error, text + "\n") }

    /// Standard output and error of this process.
    static var standard: Console {
        Console(
            write: { stream, text in StandardStream.write(text, to: stream == .output ? 1 : 2) },
            isLive: allowsEscapeCodes(isTerminal: isatty(1) == 1, environment: StandardStream.environment),
            isTerminal: allowsEscapeCodes(isTerminal: isatty(1) == 1) { name in
                name == "NO_COLOR" ? nil : StandardStream.environment(name)
            },
            columns: StandardStream.columns, outputIsWorldAccessible: StandardStream.isWorldAccessible(1))
    }

    /// Whether escape codes may be written: to a terminal that is not dumb, unless the user objects (no-color.org).
    static func allowsEscapeCodes(isTerminal: Bool, environment: (String) -> String?) -> Bool {
        let objection = environment("NO_COLOR") ?? ""
        let terminal = environment("TERM") ?? ""
        return isTerminal && objection.isEmpty && !terminal.isEmpty && terminal != "dumb"
    }
}

/// How many characters fit.
struct TerminalSize: Equatable {
    var columns = 80
    var rows = 24
}

/// What the system tells and takes by descriptor.
enum StandardStream {
    /// Writes all of `text`; what a closed pipe does not take is dropped.
    ///
    /// Where standard output takes no more for another reason, a full disk for one, the program ends with status 1: what
    /// was asked for is lost, and may be a key.
    static func write(_ text: String, to descriptor: Int32) {
        let bytes = Array(text.utf8)
        unsafe bytes.withUnsafeBytes { raw in
            var written = 0
            while written < raw.count {
                let rest = unsafe UnsafeRawBufferPointer(rebasing: raw[written...])
                let count = unsafe systemWrite(descriptor, rest.baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                if count < 0, descriptor == 1, errno != EPIPE {
                    let reason = unsafe String(cString: strerror(errno))
                    write("error: cannot write to standard output: \(reason)\n", to: 2)
                    exit(1)
                }
                guard count > 0 else { return }
                written += count
            }
        }
    }

    /// Everything that can be read from `descriptor`, up to `limit` bytes; nil when reading fails or there is more.
    static func readAll(from descriptor: Int32, limit: Int) -> [UInt8]? {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: min(limit + 1, 65_536))
        while true {
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            guard count > 0 else { return bytes }
            guard bytes.count + count <= limit else {
                errno = EFBIG
                return nil
            }
            bytes += chunk[..<count]
        }
    }

    static func environment(_ name: String) -> String? {
        guard let value = unsafe getenv(name) else { return nil }
        return unsafe String(cString: value)
    }

    static var columns: Int { terminalSize.columns }

    /// The size of the terminal that standard output goes to; the usual one where it has none.
    static var terminalSize: TerminalSize {
        var size = winsize()
        guard unsafe ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return TerminalSize() }
        return TerminalSize(columns: Int(size.ws_col), rows: size.ws_row > 0 ? Int(size.ws_row) : 24)
    }

    /// Whether `descriptor` is a file that others than its owner and group may do something with.
    static func isWorldAccessible(_ descriptor: Int32) -> Bool {
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return false }
        return status.st_mode & 0o007 != 0
    }
}

private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
    unsafe write(descriptor, bytes, count)
}
