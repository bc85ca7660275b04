// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import Observation
public import PacketTunnel
public import PacketTunnelApple

/// The state of the log page: lines of app and extension, as they are written.
///
/// They come from the file that both share. Without such a file, the running tunnel is asked for its lines.
@MainActor @Observable
public final class LogModel {
    /// The lines, oldest first.
    public private(set) var records: [LogRecord] = []
    /// The least level that is shown.
    public var minimumLevel = Logger.Level.info
    /// The text that lines must contain; empty shows all.
    public var search = ""
    /// The reason for an empty log, for the user.
    public private(set) var notice: String?

    private let log: SharedLog
    private let managers: [TunnelManager]

    /// The most lines that are kept here.
    public static let capacity = 5_000

    /// A model over the app's log and, for want of a file, its tunnels.
    public init(_ log: SharedLog, managers: [TunnelManager]) {
        self.log = log
        self.managers = managers
    }

    /// The lines to show.
    public var lines: [LogRecord] {
        records.filter { record in
            record.level >= minimumLevel
                && (search.isEmpty || record.description.lowercased().contains(search.lowercased()))
        }
    }

    /// The lines that are shown, as text to share.
    public var text: String { lines.map { "\($0)\n" }.joined() }

    /// Shows the present and new lines until the calling task is cancelled.
    public func follow() async {
        records = []
        notice = nil
        if let file = log.file {
            for await record in file.follow(includingPast: true) { take([record]) }
        } else {
            await followTunnel()
        }
    }

    /// Hides all present lines of app and extension.
    public func clear() {
        log.file?.clear()
        records = []
    }

    private func take(_ new: [LogRecord]) {
        records += new
        if records.count > Self.capacity { records.removeFirst(records.count - Self.capacity) }
    }

    /// Asks the tunnel that runs; it is the one that writes.
    private func followTunnel() async {
        for manager in managers {
            for profile in await manager.profiles where await manager.status(profile.id).status.isRunning {
                do throws(MessageError) {
                    let subscription = try await manager.client(for: profile.id).subscribe(to: LogSubscription())
                    var pages = subscription.makeAsyncIterator()
                    while let page = try await pages.next() { take(page.records) }
                } catch {
                    notice = "\(profile.name): \(error)"
                }
                return
            }
        }
        notice = log.problem.map { "\($0). Until then only a tunnel that runs can be asked for its log." }
    }
}
