// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import FoundationEssentials
import NetworkAddresses
import PacketTunnel
import TunnelSystem

/// Sets a tunnel's name servers in the host's manager of name servers.
struct ResolverControl: Sendable {
    /// The file that programs read.
    var file = "/etc/resolv.conf"
    /// The folders that are searched for programs.
    var folders = SystemProgram.folders
    /// A socket that exists while systemd-resolved runs.
    var resolvedSocket = "/run/systemd/resolve/io.systemd.Resolve"
    /// The file that orders interfaces for Debian's resolvconf.
    var interfaceOrder = "/etc/resolvconf/interface-order"
    /// How long one run of a manager may take, in seconds. openresolv waits ten for its own lock, and starts more than a
    /// hundred programs; killed in between, it leaves resolv.conf half done.
    var patience = 20
    /// The purpose of its programs.
    var purpose = ProgramClient.Purpose.system

    /// Returns the manager of name servers of this host, or `nil` if there is none.
    ///
    /// That is systemd-resolved if it runs and programs ask it; otherwise resolvconf; otherwise systemd-resolved if it runs.
    func manager() throws(LinuxNetworkError) -> ResolverManager? {
        let runsResolved = find("resolvectl") != nil && isResolvedRunning
        if runsResolved, try asksResolved() { return .resolved }
        if let resolvconf = find("resolvconf") {
            // systemd-resolved may come with a resolvconf, which is resolvectl by another name.
            if let target = Self.target(resolvconf.path), target.hasSuffix("/resolvectl") {
                return runsResolved ? .resolved : nil
            }
            return isOpenresolv(resolvconf) ? .openresolv : .debianResolvconf
        }
        return runsResolved ? .resolved : nil
    }

    /// The program of this name; `nil` if it is not installed.
    private func find(_ name: String) -> SystemProgram? {
        SystemProgram(name, folders: folders, purpose: purpose)
    }

    /// The program of this name.
    func required(_ name: String) throws(LinuxNetworkError) -> SystemProgram {
        guard let program = find(name) else { throw LinuxNetworkError(.programMissing(name: name)) }
        return program
    }

    private var isResolvedRunning: Bool { unsafe access(resolvedSocket, F_OK) == 0 }

    /// Whether programs that read resolv.conf end up at systemd-resolved.
    private func asksResolved() throws(LinuxNetworkError) -> Bool {
        if let target = Self.target(file), target.contains("/systemd/resolve/") { return true }
        return try ResolverFile(at: file).servers.contains { $0 == "127.0.0.53" || $0 == "127.0.0.54" }
    }

    private func isOpenresolv(_ program: SystemProgram) -> Bool {
        // Debian's has no version to tell, and calls the question wrong.
        let outcome = try? program.run(["--version"], seconds: patience)
        return outcome?.output.hasPrefix("openresolv") ?? false
    }

    /// Resolves a symbolic link. Returns `nil` if the target does not exist.
    static func target(_ path: String) -> String? {
        guard let resolved = unsafe realpath(path, nil) else { return nil }
        defer { unsafe free(resolved) }
        return unsafe String(cString: resolved)
    }

    // MARK: - Changing

    /// The record of a tunnel that does not run, from resolvconf's list; `nil` if the list does not have the tunnel.
    /// systemd-resolved removes a tunnel's servers with its interface.
    func record(left name: String) throws(LinuxNetworkError) -> ResolverRecord? {
        guard let manager = try manager(), manager != .resolved else { return nil }
        let program = try required("resolvconf")
        let labels =
            switch manager {
            case .openresolv: try openresolvInterfaces(program).map(String.init)
            case .debianResolvconf, .resolved: FolderContents.names(Self.debianRecords) ?? []
            }
        guard let label = labels.first(where: { $0 == name || $0.hasSuffix(".\(name)") }) else { return nil }
        return ResolverRecord(
            manager: manager, interface: InterfaceReference(name: name, index: 0), label: label, before: nil)
    }

    /// Returns the facts that a later undo needs.
    /// - Throws: ``LinuxNetworkError`` if the file cannot be read, since it could not be restored.
    func record(for plan: ResolverPlan) throws(LinuxNetworkError) -> ResolverRecord {
        let present = try SmallFile.read(file, limit: ResolverFile.limit)
        var record = ResolverRecord(
            manager: plan.manager, interface: plan.interface, label: plan.interface.name, before: nil,
            servers: plan.settings.servers.map(\.description), original: try ResolverFile(at: file))
        record.isMounted = MountedFile.mount(over: file) != nil
        switch plan.manager {
        case .resolved: return record
        // They make the bytes by themselves.
        case .openresolv, .debianResolvconf: record.original?.text = nil
        }
        if !plan.settings.matchDomains.isEmpty {
            throw LinuxNetworkError(
                .resolverLimit(
                    manager: plan.manager.title,
                    reason: "cannot ask the tunnel's servers for some domains only; systemd-resolved can"))
        }
        if plan.manager == .debianResolvconf { record.label = try debianPrefix() + record.label }
        let program = try required("resolvconf")
        if try isEmpty(program, manager: plan.manager), let text = present {
            record.before = Data(text).base64EncodedString()
        }
        return record
    }

    /// The first of Debian's patterns for interfaces is the one that its administrator prefers tunnels by.
    private func debianPrefix() throws(LinuxNetworkError) -> String {
        let order = try SmallFile.text(interfaceOrder) ?? ""
        let lines = order.split(separator: "\n").map { $0.filter { !$0.isWhitespace } }
        let pattern = lines.first { line in
            line.last == "*" && line.count > 1
                && line.dropLast().allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
        }
        return pattern.map { $0.dropLast() + "." } ?? ""
    }

    /// Whether resolvconf knows of no interface.
    private func isEmpty(_ program: SystemProgram, manager: ResolverManager) throws(LinuxNetworkError) -> Bool {
        switch manager {
        case .openresolv: try openresolvInterfaces(program).isEmpty
        case .debianResolvconf, .resolved: false
        }
    }

    /// The interfaces that openresolv knows of.
    func openresolvInterfaces(_ program: SystemProgram) throws(LinuxNetworkError) -> [Substring] {
        let outcome = try program.run(["-i"], seconds: patience)
        // Status 1 means that there was none.
        guard outcome.status == 0 || outcome.status == 1 else { throw Self.failure(of: program, outcome) }
        return outcome.output.split(whereSeparator: \.isWhitespace)
    }

    private static func failure(of program: SystemProgram, _ outcome: SystemProgram.Outcome) -> LinuxNetworkError {
        LinuxNetworkError(.programFailed(path: program.path, status: outcome.status, output: outcome.output))
    }

    /// Tells the manager.
    func set(_ plan: ResolverPlan, _ record: ResolverRecord) throws(LinuxNetworkError) {
        if plan.manager != .resolved { try checkMount(record) }
        switch plan.manager {
        case .resolved:
            let program = try required("resolvectl")
            for run in plan.resolvectlRuns { try program.check(run, seconds: patience) }
        case .openresolv:
            // The first and exclusive servers of the host.
            try required("resolvconf")
                .check(["-a", record.label, "-m", "0", "-x"], input: plan.resolvConf, seconds: patience)
        case .debianResolvconf:
            try required("resolvconf")
                .check(["-a", record.label], input: plan.resolvConf, seconds: patience)
        }
    }

    /// Removes the tunnel's servers from the manager, if it exists and has them, and restores a file that another program wrote.
    func clear(_ record: ResolverRecord) throws(LinuxNetworkError) {
        if record.manager != .resolved { try checkMount(record) }
        guard try forget(record), let replaced = record.replaced else { return }
        try checkMount(record)
        try replaced.restore(at: file)
    }

    /// Checks that no other file was mounted over the file since the start: a write would change that one.
    /// - Throws: `.kernelSetting` with `EBUSY`, which names the command that unmounts it.
    private func checkMount(_ record: ResolverRecord) throws(LinuxNetworkError) {
        guard record.isMounted == false, MountedFile.mount(over: file) != nil else { return }
        throw LinuxNetworkError(.kernelSetting(path: file), errno: EBUSY)
    }

    /// - Returns: Whether the manager has no other servers for the file.
    private func forget(_ record: ResolverRecord) throws(LinuxNetworkError) -> Bool {
        switch record.manager {
        case .resolved:
            // resolvconf forgets a removed interface, and another may have its name now.
            guard unsafe if_nametoindex(record.interface.name) == record.interface.index,
                let program = find("resolvectl")
            else { return true }
            let outcome = try program.run(["revert", record.interface.name], seconds: patience)
            guard outcome.status == 0 || !isResolvedRunning else { throw Self.failure(of: program, outcome) }
        case .debianResolvconf:
            guard let program = find("resolvconf") else { return true }
            // Its status shows that there was no such record.
            let outcome = try program.run(["-d", record.label], seconds: patience)
            if unsafe access("\(Self.debianRecords)/\(record.label)", F_OK) == 0 {
                throw Self.failure(of: program, outcome)
            }
        case .openresolv:
            guard let program = find("resolvconf") else { return true }
            return try clearOpenresolv(program, record)
        }
        return true
    }

    /// - Returns: Whether it knows of no other interface.
    private func clearOpenresolv(
        _ program: SystemProgram, _ record: ResolverRecord
    ) throws(LinuxNetworkError) -> Bool {
        let isKnown = try openresolvInterfaces(program).contains { $0 == record.label }
        let outcome = try program.run(["-d", record.label, "-f"], seconds: patience)
        let left = try openresolvInterfaces(program)
        // It did not get its lock, for example.
        if left.contains(where: { $0 == record.label }) { throw Self.failure(of: program, outcome) }
        let before = left.isEmpty ? record.bytesAfter : nil
        if let before, try ResolverFile(at: file).bytes == before { return true }
        // A killed run, of now or before, may have removed the record without updating resolv.conf.
        if !isKnown || outcome.status != 0 { try updateOpenresolv(program, record, restores: before != nil) }
        guard let before, try ResolverFile(at: file).bytes != before, unsafe access(file, F_OK) == 0 else {
            return left.isEmpty
        }
        try SmallFile.overwrite(file, with: before)
        return true
    }

    /// Makes openresolv update its subscribers. Does nothing if another program wrote the file, which then stays.
    private func updateOpenresolv(
        _ program: SystemProgram, _ record: ResolverRecord, restores: Bool
    ) throws(LinuxNetworkError) {
        let isByResolvconf = try ResolverFile(at: file).isByResolvconf
        guard restores || isByResolvconf else { return }
        let outcome = try program.run(["-u"], seconds: patience)
        if outcome.status == 0 || restores { return }
        // The status may come from a subscriber that always fails: only the file counts.
        let servers = try ResolverFile(at: file).servers
        if servers.contains(where: { record.servers?.contains($0) ?? false }) {
            throw Self.failure(of: program, outcome)
        }
    }
}
