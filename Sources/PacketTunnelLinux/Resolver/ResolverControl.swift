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
    /// The time limit of one run of a manager's program, in seconds. openresolv waits ten seconds for its own lock and
    /// starts more than a hundred programs. If it is killed meanwhile, it leaves resolv.conf incomplete.
    var patience = 20
    /// The purpose of its programs.
    var purpose = ProgramClient.Purpose.system

    /// Returns the manager of name servers of this host, or `nil` if there is none.
    ///
    /// It is systemd-resolved if that runs and programs use it; otherwise resolvconf; otherwise systemd-resolved if
    /// that runs.
    func manager() throws(LinuxNetworkError) -> ResolverManager? {
        if try usesResolved() { return .resolved }
        return resolvconf.map { isOpenresolv($0) ? .openresolv : .debianResolvconf }
    }

    /// Whether systemd-resolved is the host's manager of name servers. Starts no program.
    func usesResolved() throws(LinuxNetworkError) -> Bool {
        guard find("resolvectl") != nil, isResolvedRunning else { return false }
        return try asksResolved() || resolvconf == nil
    }

    /// The program resolvconf; `nil` if it is not installed. systemd-resolved may provide one that is a link to
    /// resolvectl, which does not count.
    private var resolvconf: SystemProgram? {
        guard let program = find("resolvconf") else { return nil }
        return Self.target(program.path)?.hasSuffix("/resolvectl") == true ? nil : program
    }

    /// Finds the program of this name; `nil` if it is not installed.
    private func find(_ name: String) -> SystemProgram? {
        SystemProgram(name, folders: folders, purpose: purpose)
    }

    /// Finds the program of this name, or throws.
    func required(_ name: String) throws(LinuxNetworkError) -> SystemProgram {
        guard let program = find(name) else { throw LinuxNetworkError(.programMissing(name: name)) }
        return program
    }

    private var isResolvedRunning: Bool { unsafe access(resolvedSocket, F_OK) == 0 }

    /// Whether programs that read resolv.conf send their queries to systemd-resolved.
    private func asksResolved() throws(LinuxNetworkError) -> Bool {
        if let target = Self.target(file), target.contains("/systemd/resolve/") { return true }
        return try ResolverFile(at: file).servers.contains { $0 == "127.0.0.53" || $0 == "127.0.0.54" }
    }

    private func isOpenresolv(_ program: SystemProgram) -> Bool {
        // Debian's resolvconf has no `--version`, and reports an error.
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

    /// Returns the record of a tunnel that does not run, from resolvconf's list; `nil` if the list does not contain the
    /// tunnel. systemd-resolved removes a tunnel's servers with its interface.
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

    /// Returns the information that undoing the plan later needs.
    /// - Throws: ``LinuxNetworkError`` if the file cannot be read, because then it could not be restored.
    func record(for plan: ResolverPlan) throws(LinuxNetworkError) -> ResolverRecord {
        let present = try SmallFile.read(file, limit: ResolverFile.limit)
        var record = ResolverRecord(
            manager: plan.manager, interface: plan.interface, label: plan.interface.name, before: nil,
            servers: plan.settings.servers.map(\.description), original: try ResolverFile(at: file))
        record.isMounted = MountedFile.mount(over: file) != nil
        switch plan.manager {
        case .resolved: return record
        // These managers write the file themselves.
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

    /// Returns the first pattern of Debian's interface order, by which its administrator prefers tunnels.
    private func debianPrefix() throws(LinuxNetworkError) -> String {
        let order = try SmallFile.text(interfaceOrder) ?? ""
        let lines = order.split(separator: "\n").map { $0.filter { !$0.isWhitespace } }
        let pattern = lines.first { line in
            line.last == "*" && line.count > 1
                && line.dropLast().allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
        }
        return pattern.map { $0.dropLast() + "." } ?? ""
    }

    /// Whether resolvconf has no records of interfaces.
    private func isEmpty(_ program: SystemProgram, manager: ResolverManager) throws(LinuxNetworkError) -> Bool {
        switch manager {
        case .openresolv: try openresolvInterfaces(program).isEmpty
        case .debianResolvconf, .resolved: false
        }
    }

    /// Returns the interfaces for which openresolv has records.
    func openresolvInterfaces(_ program: SystemProgram) throws(LinuxNetworkError) -> [Substring] {
        let outcome = try program.run(["-i"], seconds: patience)
        // Status 1 means that there are none.
        guard outcome.status == 0 || outcome.status == 1 else { throw Self.failure(of: program, outcome) }
        return outcome.output.split(whereSeparator: \.isWhitespace)
    }

    private static func failure(of program: SystemProgram, _ outcome: SystemProgram.Outcome) -> LinuxNetworkError {
        LinuxNetworkError(.programFailed(path: program.path, status: outcome.status, output: outcome.output))
    }

    /// Passes the tunnel's servers to the manager.
    func set(_ plan: ResolverPlan, _ record: ResolverRecord) throws(LinuxNetworkError) {
        if plan.manager != .resolved { try checkMount(record) }
        switch plan.manager {
        case .resolved:
            let program = try required("resolvectl")
            for run in plan.resolvectlRuns { try program.check(run, seconds: patience) }
        case .openresolv:
            // Make the tunnel's servers the first and only servers of the host.
            try required("resolvconf")
                .check(["-a", record.label, "-m", "0", "-x"], input: plan.resolvConf, seconds: patience)
        case .debianResolvconf:
            try required("resolvconf")
                .check(["-a", record.label], input: plan.resolvConf, seconds: patience)
        }
    }

    /// Removes the tunnel's servers from the manager, if it exists and has them, and restores the file that another
    /// program wrote.
    func clear(_ record: ResolverRecord) throws(LinuxNetworkError) {
        if record.manager != .resolved { try checkMount(record) }
        guard try forget(record), let replaced = record.replaced else { return }
        try checkMount(record)
        try replaced.restore(at: file)
    }

    /// Checks that no other file was mounted over resolv.conf since the start, because a write would change that file.
    /// - Throws: `.kernelSetting` with `EBUSY`. The error names the command that unmounts the file.
    private func checkMount(_ record: ResolverRecord) throws(LinuxNetworkError) {
        guard record.isMounted == false, MountedFile.mount(over: file) != nil else { return }
        throw LinuxNetworkError(.kernelSetting(path: file), errno: EBUSY)
    }

    /// - Returns: Whether the manager has no other servers for resolv.conf.
    private func forget(_ record: ResolverRecord) throws(LinuxNetworkError) -> Bool {
        switch record.manager {
        case .resolved:
            // systemd-resolved removes its record with the interface, and another interface may have that name now.
            guard unsafe if_nametoindex(record.interface.name) == record.interface.index,
                let program = find("resolvectl")
            else { return true }
            let outcome = try program.run(["revert", record.interface.name], seconds: patience)
            guard outcome.status == 0 || !isResolvedRunning else { throw Self.failure(of: program, outcome) }
        case .debianResolvconf:
            guard let program = find("resolvconf") else { return true }
            // The status is not zero if the record does not exist, so check the file instead.
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

    /// - Returns: Whether openresolv has no other interface.
    private func clearOpenresolv(
        _ program: SystemProgram, _ record: ResolverRecord
    ) throws(LinuxNetworkError) -> Bool {
        let isKnown = try openresolvInterfaces(program).contains { $0 == record.label }
        let outcome = try program.run(["-d", record.label, "-f"], seconds: patience)
        let left = try openresolvInterfaces(program)
        // It may have failed to get its lock, for example.
        if left.contains(where: { $0 == record.label }) { throw Self.failure(of: program, outcome) }
        let before = left.isEmpty ? record.bytesAfter : nil
        if let before, try ResolverFile(at: file).bytes == before { return true }
        // A run that was killed, now or earlier, may have removed the record without updating resolv.conf.
        if !isKnown || outcome.status != 0 { try updateOpenresolv(program, record, restores: before != nil) }
        guard let before, try ResolverFile(at: file).bytes != before, unsafe access(file, F_OK) == 0 else {
            return left.isEmpty
        }
        try SmallFile.overwrite(file, with: before)
        return true
    }

    /// Makes openresolv update its subscribers. If another program wrote the file, does nothing, so that the file
    /// stays.
    private func updateOpenresolv(
        _ program: SystemProgram, _ record: ResolverRecord, restores: Bool
    ) throws(LinuxNetworkError) {
        let isByResolvconf = try ResolverFile(at: file).isByResolvconf
        guard restores || isByResolvconf else { return }
        let outcome = try program.run(["-u"], seconds: patience)
        if outcome.status == 0 || restores { return }
        // The status may come from a subscriber that always fails, so only the file matters.
        let servers = try ResolverFile(at: file).servers
        if servers.contains(where: { record.servers?.contains($0) ?? false }) {
            throw Self.failure(of: program, outcome)
        }
    }
}
