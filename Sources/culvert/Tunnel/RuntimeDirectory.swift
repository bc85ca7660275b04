// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CTunnelSystem
import CommandLineSupport
import PacketTunnel
import TunnelSystem

/// The folder for the files of running tunnels: sockets, journals, logs.
struct RuntimeDirectory: Sendable, Equatable {
    /// The environment variable that replaces ``standard``.
    static let variable = "CULVERT_RUNTIME_DIRECTORY"
    /// The default folder. A restart of the machine empties it, and also ends all tunnels.
    static let standard = "/run/culvert"

    var path: String

    init(path: String? = nil, environment: (String) -> String? = StandardStream.environment) {
        let stated = path ?? environment(Self.variable) ?? ""
        self.path = stated.isEmpty ? Self.standard : stated
    }

    /// The path of the socket at which a tunnel's service answers.
    func socket(_ name: String) -> String { "\(path)/\(name).sock" }

    /// The file whose lock a tunnel's process has while it serves the socket.
    func socketLock(_ name: String) -> String { "\(socket(name)).lock" }

    /// Removes the socket of a process that died, unless another process has replaced it.
    func removeSocket(_ name: String) {
        let path = socket(name)
        let lock = SystemCall.open(socketLock(name), O_RDWR | O_NOFOLLOW)
        guard lock >= 0 else { return }
        defer { close(lock) }
        if flock(lock, LOCK_EX | LOCK_NB) == 0 { unsafe _ = unlink(path) }
    }

    /// The log of a tunnel, which stays when it ends.
    func log(_ name: String) -> String { "\(path)/\(name).log" }

    /// The policy that is held for a tunnel even if it does not run; `nil` if there is none.
    func heldPolicy(_ name: String) -> LeakPolicy? {
        let bytes = CheckedFile(path: "\(path)/\(name).guard", isRegular: true).bytes
        return bytes.map { bytes in
            LeakPolicy(rawValue: String(decoding: bytes.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self))
                ?? .everything
        }
    }

    /// The names of the tunnels that run or have left files, sorted.
    /// - Throws: if the folder exists and cannot be read.
    func tunnels() throws(CommandProblem) -> [String] { try names(of: [".sock", ".journal", ".guard"]) }

    /// Whether a tunnel runs or has left files. It works even for users who may not list the folder.
    func hasTunnel(_ name: String) -> Bool {
        [".sock", ".journal", ".guard"].contains { unsafe access("\(path)/\(name)\($0)", F_OK) == 0 }
    }

    /// The names of the tunnels that have a log, sorted.
    func logs() throws(CommandProblem) -> [String] { try names(of: [".log"]) }

    private func names(of suffixes: [String]) throws(CommandProblem) -> [String] {
        guard let files = FolderContents.names(path) else {
            if errno == ENOENT { return [] }
            let isDenied = SystemError.isDenied(errno)
            throw CommandProblem(
                isDenied ? ExitStatus.notPermitted : ExitStatus.failure,
                "\(path): \(SystemError.words(errno))"
                    + (isDenied ? "\n  fix: run as root, or name a tunnel that you may control" : ""))
        }
        var names: Set<String> = []
        for file in files {
            for suffix in suffixes where file.hasSuffix(suffix) { names.insert(String(file.dropLast(suffix.count))) }
        }
        return names.filter(TunnelName.isValid).sorted()
    }
}

/// The option for the folder of running tunnels.
struct RuntimeOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The folder of sockets, journals and logs (default: $\(RuntimeDirectory.variable), else \(RuntimeDirectory.standard)).",
            valueName: "folder"),
        completion: .directory)
    var runtimeDirectory: String?

    var directory: RuntimeDirectory { RuntimeDirectory(path: runtimeDirectory) }

    /// The shells' completion of a tunnel's name.
    static let completion = CompletionKind.shellCommand(
        "ls \(RuntimeDirectory.standard) 2>/dev/null | sed -n 's/\\.sock$//p'")
}

/// The names of tunnels, which are also the names of their interfaces.
enum TunnelName {
    static func isValid(_ name: String) -> Bool { FileName.isInterface(name) }

    /// The name of a file's tunnel: `wg0` for `/etc/wireguard/wg0.conf`; `nil` if it is not a valid name.
    static func of(file: String) -> String? {
        guard let last = file.split(separator: "/").last, last.hasSuffix(".conf") else { return nil }
        let name = String(last.dropLast(5))
        return isValid(name) ? name : nil
    }

    /// Whether an argument is the path of a file and not a name.
    static func isFile(_ argument: String) -> Bool { argument.contains("/") || argument.hasSuffix(".conf") }

    /// Returns the name of the tunnel that an argument refers to: that of a file's tunnel, or the argument itself.
    static func of(argument: String) throws(CommandProblem) -> String {
        if isFile(argument) {
            guard let name = of(file: argument) else { throw badFile(argument) }
            return name
        }
        guard isValid(argument) else { throw badName(argument) }
        return argument
    }

    static func badFile(_ path: String) -> CommandProblem {
        CommandProblem(
            ExitStatus.usage,
            "'\(path)' does not name a tunnel: the file's name must be an interface's and '.conf', such as wg0.conf\n"
                + "  fix: rename it, or name the interface with --interface")
    }

    static func badName(_ name: String) -> CommandProblem {
        CommandProblem(
            ExitStatus.usage, "'\(name)' is not a tunnel name: use 1 to 15 letters, digits and the signs _ = + . -")
    }
}
