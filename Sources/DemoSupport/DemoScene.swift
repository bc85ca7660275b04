// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
package import CommandLineSupport
package import TunnelSystem

/// A demonstration of one program.
package protocol DemoScene: Sendable {
    /// The command without options, as people type it after `culvert`.
    static var command: String { get }
    /// The scene of namespaces.sh that `--tun` shows.
    static var script: String { get }
    /// The seconds of each bulk transfer unless stated.
    static var seconds: Int { get }
    /// The members of both documents before the first step; empty without `--json`.
    static var members: JSON { get }
    static var scriptMembers: JSON { get }

    /// The scene in this process, which needs no privileges.
    init(transfer: Duration)
    /// Shows the title, and takes and shows the steps.
    func show(_ report: DemoReport) async throws
}

/// Runs a scene of namespaces.sh.
///
/// It throws `CommandFailure` or `CancellationError` if the script did not succeed.
typealias DemoFlow = @Sendable (_ scene: String, _ seconds: Int, _ report: DemoReport) async throws -> Void

/// The options of the demonstrations.
package struct DemoOptions<Scene: DemoScene>: ParsableArguments {
    @Flag(help: "Use real interfaces in network namespaces (Linux, needs root).")
    package var tun = false

    @Flag(help: "Print plain lines without colour, as when the output is no terminal or NO_COLOR is set.")
    package var plain = false

    @Option(help: ArgumentHelp("How long each bulk transfer sends: 1 to 60.", valueName: "n"))
    package var seconds = Scene.seconds

    package init() {}

    package func validate() throws {
        guard (1...60).contains(seconds) else {
            throw ValidationError("--seconds is \(seconds); it must be from 1 to 60")
        }
    }

    /// Runs the demonstration.
    /// - Parameter isJSON: Whether the output is one document with all figures.
    /// - Returns: The exit status.
    package func run(isJSON: Bool = false, console: Console = .standard) -> Int32 {
        run(Scene.self, isJSON: isJSON, console: console)
    }

    /// Runs another demonstration of the same program.
    /// - Returns: The exit status.
    package func run<Shown: DemoScene>(_: Shown.Type, isJSON: Bool = false, console: Console = .standard) -> Int32 {
        let script: DemoFlow?
        do throws(CommandFailure) {
            script = tun ? try NamespaceScript.make(for: Shown.command) : nil
        } catch {
            return error.report(to: console, as: "culvert")
        }
        let style: DemoView.Style = isJSON ? .silent : console.isLive && !plain ? .live : .plain
        let seconds = seconds
        return SignalledRun.run {
            let view = DemoView(style, console: console)
            let report = DemoReport(view, script == nil ? Shown.members : Shown.scriptMembers)
            let status = await report.run { report in
                if let script { return try await script(Shown.script, seconds, report) }
                try await Shown(transfer: .seconds(seconds)).show(report)
            }
            if isJSON { console.line(report.json.text) }
            if let failure = report.failure {
                let end = report.isInterrupted ? "was interrupted" : "failed: \(failure)"
                console.problem("culvert: the demonstration \(end)")
            }
            return status
        }
    }
}
