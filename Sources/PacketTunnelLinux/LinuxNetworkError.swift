// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import PacketTunnel
import TunnelIO
import TunnelSystem

/// An error while the host's network was read or changed, and its remedy.
public struct LinuxNetworkError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of failure.
    public enum Code: Hashable, Sendable {
        /// The kernel refused a change of links, addresses, routes or rules; `operation` says which.
        case netlink(operation: String)
        /// A kernel setting could not be read or written.
        case kernelSetting(path: String)
        /// The program is not installed in any of the system's folders.
        case programMissing(name: String)
        /// The program could not be started.
        case programNotStarted(path: String)
        /// The program did not end in time, and was killed.
        case programTimedOut(path: String, seconds: Int)
        /// The program ended with a status other than zero; `output` is the end of its output.
        case programFailed(path: String, status: Int32, output: String)
        /// The journal could not be written or read; `operation` says which.
        case journal(path: String, operation: String)
        /// The journal belongs to a tunnel that is running.
        case tunnelRunning(name: String, processID: Int32)
        /// The name is not valid for a file and an interface: 1 to 15 letters, digits and `_=+.-`.
        case invalidTunnelName(String)
        /// No program on this host manages name servers.
        case noResolverManager
        /// The manager of name servers does not support the settings.
        case resolverLimit(manager: String, reason: String)
        /// No free number was found for a routing table.
        case noFreeTable(from: UInt32)
        /// The requested mark is already the number of another tunnel or routing table, which `user` names.
        case markTaken(UInt32, user: String)
        /// This tunnel or another running one would not carry its packets; `reason` names the conflict.
        case tunnelConflict(tunnel: String, reason: String)
        /// No priority is free before the present policy rules.
        case noFreeRulePriority
        /// The kernel would drop the answers to the tunnel's own packets, because it refuses the table that marks them.
        case strictReversePath(interface: String)
        /// A strict leak policy needs policy rules, but the routes are in a table for which the host makes none.
        case leakPolicyNeedsRules
        /// Some changes could not be undone; the journal is kept for another attempt.
        case incompleteUndo(steps: [String])
        /// The journal was deleted or damaged. The changes that the kernel lists were undone; `unknown` names the
        /// settings whose previous values are lost.
        case journalLost(undone: [String], unknown: [String])
    }

    /// The kind of failure.
    public let code: Code
    /// The system's error number, or zero if there is none.
    public let errno: Int32

    /// An error with the system's error number.
    public init(_ code: Code, errno: Int32 = 0) {
        self.code = code
        self.errno = errno
    }

    /// Whether the journal could not be written or read.
    var isOfJournal: Bool {
        if case .journal = code { true } else { false }
    }

    /// Whether other users can write to the folder of the journals.
    var isOfDistrust: Bool {
        if case .journal(_, JournalDirectory.distrust) = code { true } else { false }
    }

    /// The failure, its input, the system's error and the remedy.
    public var description: String {
        var text = what
        if errno != 0 { text += ": \(SystemError.text(errno))" }
        if let advice { text += "; \(advice)" }
        return text
    }

    /// The maximum number of steps in a message, because there may be thousands of routes.
    private static let mostSteps = 8

    static func list(_ steps: [String], separator: String = "; ") -> String {
        steps.prefix(mostSteps).joined(separator: separator)
            + (steps.count > mostSteps ? "\(separator)and \(steps.count - mostSteps) more" : "")
    }

    /// The failure without the system's error.
    var what: String {
        switch code {
        case .netlink(let operation): "cannot \(operation)"
        case .kernelSetting(let path): "cannot change \(path)"
        case .programMissing(let name): "\(name) is not installed"
        case .programNotStarted(let path): "cannot start \(path)"
        case .programTimedOut(let path, let seconds): "\(path) did not end within \(seconds) seconds"
        case .programFailed(let path, let status, let output):
            "\(path) ended with status \(status)" + (output.isEmpty ? "" : ": \(output)")
        case .journal(let path, let operation): "journal \(path): cannot \(operation)"
        case .tunnelRunning(let name, let processID): "tunnel '\(name)' is running as process \(processID)"
        case .invalidTunnelName(let name):
            "'\(name)' is not a valid tunnel name: use 1 to 15 letters, digits and the characters _ = + . -"
        case .noResolverManager: "nothing on this host manages name servers"
        case .resolverLimit(let manager, let reason): "\(manager) \(reason)"
        case .noFreeTable(let first): "no routing table from number \(first) on is free"
        case .markTaken(let mark, let user): "the mark \(mark) is taken already, by \(user)"
        case .tunnelConflict(let tunnel, let reason): "tunnel '\(tunnel)' is up: \(reason)"
        case .noFreeRulePriority: "the policy rules leave no priority in front of them"
        case .strictReversePath(let interface):
            "answers of the tunnel's server would be dropped: rp_filter is 1 (strict) on \(interface), and the kernel refuses "
                + "the firewall table that marks them as the tunnel's"
        case .leakPolicyNeedsRules:
            "a strict leak policy cannot be used with Table, because your own rules choose the packets for that table"
        case .incompleteUndo(let steps): "not undone: \(Self.list(steps))"
        case .journalLost(let undone, let unknown):
            "the tunnel's journal was deleted or damaged; undone as the kernel listed it: \(Self.list(undone)); not restored, "
                + "because the journal had the previous value: \(Self.list(unknown))"
        }
    }

    /// The operation in the error of a thread that cannot be started.
    static let threadStart = "start a thread"

    /// The remedy, or `nil` if there is none.
    var advice: String? {
        switch code {
        case .kernelSetting(let path) where errno == EPERM && !path.hasPrefix("/proc/"):
            "run as root; if the file is immutable, run 'chattr -i \(path)' first"
        case .kernelSetting(let path) where errno == EBUSY && !path.hasPrefix("/proc/"):
            "another file is mounted over it; run 'umount \(path)'"
        case .kernelSetting(let path) where errno == ELOOP:
            "replace \(path), a symbolic link that leads to itself, with a file"
        case .kernelSetting(let path) where errno == EFBIG:
            "replace \(path) with a file of at most \(ResolverFile.limit) bytes"
        case .journal(let path, JournalDirectory.distrust): "run 'chown \(geteuid()) \(path)' and 'chmod 0700 \(path)'"
        case .netlink(operation: Self.threadStart) where errno == EAGAIN:
            "raise the limits of processes, threads and memory that this process has"
        case .netlink, .kernelSetting, .journal:
            switch errno {
            case EPERM, EACCES: "run as root or with CAP_NET_ADMIN"
            case EEXIST: "something else has made it already; remove that or choose another"
            case ENODEV: "the interface was removed"
            case ENETUNREACH: "there is no route to the gateway"
            case EWOULDBLOCK: "let the process continue that has it, or kill it"
            case EROFS: "the file system is read-only; in a container, let it be writable"
            case EOPNOTSUPP, EAFNOSUPPORT, EPROTONOSUPPORT: "the kernel was built without it or it is switched off"
            default: nil
            }
        case .programMissing(let name):
            name == "nft"
                ? "install nftables; only a tunnel with the route-based leak policy runs without it" : "install it"
        case .tunnelRunning: "stop it first"
        case .markTaken: "choose another FwMark, or leave it out"
        case .tunnelConflict(let tunnel, _):
            "run 'culvert down \(tunnel)' first, or leave out routes of one of both tunnels"
        case .strictReversePath(let interface):
            "load the kernel's modules nf_tables, nft_ct and nft_fib_inet, or run 'sysctl -w net.ipv4.conf.\(interface).rp_filter=2'"
        case .noResolverManager:
            "run systemd-resolved, install openresolv, or start without name servers ('culvert up --no-dns')"
        case .leakPolicyNeedsRules: "leave the table out, or choose the route-based leak policy"
        case .incompleteUndo: "run 'culvert cleanup'"
        case .journalLost: "set it yourself, if another value is wanted"
        default: nil
        }
    }
}

extension TunnelError {
    /// Converts the error for a host whose network could not be changed.
    package init(_ error: LinuxNetworkError) {
        var message = error.what
        if error.errno != 0 { message += ": \(SystemError.words(error.errno))" }
        let code: Code =
            switch (error.code, error.errno) {
            case (.tunnelRunning, _): .alreadyRunning
            case (.invalidTunnelName, _): .configurationInvalid
            case (.leakPolicyNeedsRules, _), (.markTaken, _), (.tunnelConflict, _): .settingsInvalid
            case (_, EPERM), (_, EACCES): .permissionDenied
            default: .settingsFailed
            }
        self.init(code, message, fix: error.advice ?? "")
    }

    /// Converts the error for a host whose interface could not be created.
    init(_ error: TunnelIOError) {
        let isForbidden = error.errno == EPERM || error.errno == EACCES
        self.init(
            isForbidden ? .permissionDenied : .settingsFailed, error.description,
            fix: isForbidden ? "run as root or with CAP_NET_ADMIN" : "")
    }
}
