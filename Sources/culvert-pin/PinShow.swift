// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import FoundationEssentials
import TrustPinning
import TrustPinningNIO
import TunnelSystem

/// Runs `culvert pin show`. Functions return the exit status.
struct PinShow: Sendable {
    var environment: PinEnvironment
    var connect: String?
    var backup: String?
    var roots: String?
    var onlyPolicy = false
    var json = false

    private var console: Console { environment.console }

    func run(_ target: String) async -> Int32 {
        do {
            let isFile = target == "-" || target.contains("/") || PinEnvironment.exists(target)
            // Treat a URL, which also contains slashes, as a server, because that error is more helpful.
            guard isFile, !target.contains("://") else {
                return try await showServer(try PinTarget(target))
            }
            guard !onlyPolicy else { throw PinToolError("--policy requires a server, not a file") }
            return try showFile(target)
        } catch let error as PinToolError {
            return environment.fail(error)
        } catch {
            return environment.fail(PinToolError(String(describing: error)))
        }
    }

    // MARK: - Servers

    private func showServer(_ target: PinTarget) async throws -> Int32 {
        let trust = try environment.systemTrust(roots: roots)
        let place = try connect.map { text throws(PinToolError) in try PinTarget.place(text) }
        let backupKey = try backup.map { path throws(PinToolError) in try environment.keySources(path)[0] }
        let presented: [[UInt8]]
        do {
            presented = try await environment.probe.chain(of: target.host, port: target.port, at: place)
        } catch {
            return unreachable(target, error)
        }
        let request = SystemTrustRequest(chain: presented, host: target.host, date: environment.now)
        let report = ChainReport(presented: presented, trust: await trust.verify(request), now: environment.now)
        let draft = try PolicyDraft(host: target.host, chain: report, backup: backupKey)
        if onlyPolicy {
            console.write(.output, draft.policies.json)
            for note in draft.notes { console.problem("culvert: note: \(note)") }
        } else if json {
            console.line(report.json(target, draft).text)
        } else {
            for line in report.lines(target) { console.line(line) }
            console.line("Policy:")
            console.write(.output, draft.policies.json)
            for note in draft.notes { console.line("Note: \(note)") }
        }
        return ExitStatus.success
    }

    private func unreachable(_ target: PinTarget, _ error: PinnedSessionError) -> Int32 {
        if json, !onlyPolicy {
            let document: JSON = [
                "host": .string(target.host.description), "port": .integer(target.port), "chain": .null,
                "failure": .string(error.description),
            ]
            console.line(document.text)
        }
        // Mention files, because the target may be a mistyped file name.
        let hint = connect == nil && !target.host.isAddress ? " (and no file has this name)" : ""
        console.problem("culvert: \(target.text): \(error)\(hint)")
        return ExitStatus.unreachable
    }

    // MARK: - Files

    private func showFile(_ path: String) throws(PinToolError) -> Int32 {
        let sources = try environment.keySources(path)
        if json {
            let items = sources.map { source -> JSON in
                var members: [JSON.Member] = [
                    JSON.Member(name: "kind", value: .string(PinShow.name(source.kind))),
                    JSON.Member(name: "key", value: .string(source.keyDescription)),
                    JSON.Member(name: "spki", value: .string(source.keyHash.description)),
                ]
                if let der = source.certificate, let fields = try? CertificateFields(der) {
                    members += ChainReport.Entry(fields, place: nil, isSent: true, now: environment.now).members
                }
                return .object(members)
            }
            console.line((["file": .string(path), "items": .array(items)] as JSON).text)
            return ExitStatus.success
        }
        for (index, source) in sources.enumerated() {
            if index > 0 { console.line() }
            if let der = source.certificate, let fields = try? CertificateFields(der) {
                let entry = ChainReport.Entry(fields, place: nil, isSent: true, now: environment.now)
                for line in entry.lines { console.line(line) }
            } else {
                console.line("\(PinShow.name(source.kind)), \(source.keyDescription)")
                console.line("  spki         \(source.keyHash)")
            }
        }
        return ExitStatus.success
    }

    private static func name(_ kind: KeySource.Kind) -> String {
        switch kind {
        case .certificate: "certificate"
        case .certificateRequest: "signing request"
        case .publicKey: "public key"
        case .privateKey: "private key"
        }
    }
}

/// A policy for a server, with its current key and a backup.
struct PolicyDraft {
    var policies: PolicySet
    var notes: [String] = []

    init(host: HostName, chain: ChainReport, backup: KeySource?) throws {
        guard let leaf = chain.entries.first?.fields else { throw PinToolError("the server sent no certificate") }
        let primary = try Pin(.spki, leaf.keyHash, scope: .leaf)
        var pins = [primary]
        if let backup {
            if backup.keyHash == leaf.keyHash {
                notes.append(
                    "the backup is the key in use, so the policy has no backup: generate another key and keep it offline"
                )
            } else {
                pins.append(try Pin(.spki, backup.keyHash, role: .backup, scope: .leaf))
            }
        } else if chain.isTrusted, chain.entries.count > 1, let issuer = chain.entries.dropFirst().first?.fields,
            issuer.keyHash != leaf.keyHash
        {
            pins.append(try Pin(.ca, issuer.keyHash, role: .backup))
            notes.append(
                "the backup is the issuer's key: any certificate of \(issuer.subjectCommonName.map(Printable.text) ?? "it") for the host passes, and "
                    + "no certificate of another issuer does. Pass your own key with --backup")
        }
        let policy: PinningPolicy
        if pins.count > 1, chain.isTrusted {
            policy = try PinningPolicy(pins: pins)
        } else if pins.count > 1 {
            policy = try PinningPolicy(pins: pins, requiresSystemTrust: false)
            notes.append(
                "the chain has no system trust, so the policy does not require it: only the pinned keys are accepted, with "
                    + "certificates that are valid for the host")
        } else {
            policy = try PinningPolicy(pins: pins, mode: .audit)
            notes.append("without a backup, pins are only audited: pass one with --backup to enforce them")
        }
        policies = try PolicySet([HostPolicy(.exact(host.description), policy)], unlisted: .systemTrust)
    }
}
