// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The demonstrations in network namespaces: runs namespaces.sh, and shows its reports.
struct NamespaceScript: Sendable {
    /// Runs a scene of the script for some seconds. The script removes everything that it made. It ends early if the task is cancelled.
    ///
    /// It throws `CommandFailure` or `CancellationError` if the script did not succeed.
    var run: @Sendable (_ scene: String, _ seconds: Int, _ report: DemoReport) async throws -> Void
}
