// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport
import PacketTunnel
import Provisioning
import TunnelSystem

/// The sources of an invitation.
enum InvitationSource {
    /// Reads an invitation from a file or standard input (`-`), or from the terminal if the path is `nil`.
    /// - Parameter console: Prints a warning if other users can read or change the file.
    static func read(_ path: String?, _ console: Console) throws(EnrolProblem) -> Invitation {
        var bytes = try bytes(path, console)
        defer { wipe(&bytes) }
        do throws(ContractError) {
            return try Invitation(String(decoding: bytes, as: UTF8.self))
        } catch {
            throw EnrolProblem(
                ExitStatus.usage,
                "the invitation is not valid: \(error)\n  fix: ask for a new one, and copy the whole line")
        }
    }

    private static func bytes(_ path: String?, _ console: Console) throws(EnrolProblem) -> [UInt8] {
        guard let path else {
            do throws(CommandFailure) {
                return try HiddenPrompt.read(
                    "invitation (not shown): ", for: "invitation", otherwise: "use a file, or - for standard input")
            } catch {
                throw EnrolProblem(error.status, error.text)
            }
        }
        let descriptor = path == "-" ? 0 : SystemCall.open(path, O_RDONLY)
        guard descriptor >= 0 else { throw Self.problem(path) }
        defer { if descriptor > 0 { SystemCall.close(descriptor) } }
        guard let bytes = SystemCall.readAll(descriptor, limit: 4 * Invitation.byteLimit) else {
            throw Self.problem(path)
        }
        if isOpenToOthers(descriptor) {
            console.problem(
                """
                warning: other users of this machine can read or change \(path == "-" ? "the invitation's file" : "'\(path)'")
                  fix: chmod 600 it; if another user may have used the invitation, ask for a new one
                """)
        }
        return bytes
    }

    /// Whether a descriptor is a file that users other than its owner can read or change.
    private static func isOpenToOthers(_ descriptor: Int32) -> Bool {
        guard let status = FileStatus(of: descriptor), status.kind == .file else { return false }
        return status.mode & 0o066 != 0
    }

    private static func problem(_ path: String) -> EnrolProblem {
        let number = errno
        let status =
            number == ENOENT
            ? ExitStatus.notFound : SystemError.isDenied(number) ? ExitStatus.notPermitted : ExitStatus.usage
        return EnrolProblem(status, "\(path == "-" ? "standard input" : path): \(SystemError.words(number))")
    }
}

/// The error of the program, and its exit status.
struct EnrolProblem: Error, Equatable {
    var status: Int32
    var text: String

    init(_ status: Int32, _ text: String) {
        self.status = status
        self.text = text
    }

    init(_ error: TunnelError) {
        let status =
            switch error.code {
            case .authenticationFailed: ExitStatus.failure
            case .serverUnreachable, .nameResolutionFailed, .networkUnavailable: ExitStatus.unreachable
            case .permissionDenied: ExitStatus.notPermitted
            case .profileNotFound: ExitStatus.notFound
            case .configurationInvalid, .secretUnavailable: ExitStatus.usage
            default: ExitStatus.failure
            }
        var lines = [error.message]
        lines += error.problems.map { "  \($0.field) '\($0.value)' \($0.problem): \($0.fix)" }
        if !error.fix.isEmpty { lines.append("  fix: \(error.fix)") }
        self.init(status, lines.joined(separator: "\n"))
    }

    init(_ error: ProvisioningError) { self.init(error.tunnelError) }
}
