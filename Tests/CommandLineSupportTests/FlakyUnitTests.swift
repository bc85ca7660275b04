// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineTesting
import Testing

/// Unit tests that fail, for the part of `scripts/test` that runs a failed test again. `dev/environments flaky` runs them.
@Suite("Unit tests that fail", .enabled(if: FlakyTest.folder != nil, "runs in make soak"), .timeLimit(.minutes(1)))
struct FlakyUnitTests {
    @Test("A unit test fails once")
    func first() throws { #expect(try FlakyTest.hasRun()) }

    @Test("A unit test that never fails runs once")
    func sound() throws { #expect(try !FlakyTest.hasRun()) }

    @Test("An issue of a task outside the test fails the run")
    func detached() async { _ = await Task.detached { Issue.record("of no test") }.value }

    @Test("A unit test fails each time")
    func never() { #expect(FlakyTest.folder == nil) }
}
