// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineTesting
    import Testing

    /// Tests that fail the first time, to test the part of `scripts/test` that repeats a failed test. `dev/environments
    /// flaky` runs them; otherwise they are not even listed.
    @Suite("Tests that fail once", .enabled(if: FlakyTest.folder != nil, "runs in make soak"), .timeLimit(.minutes(1)))
    struct FlakyTests {
        @Test("The first test fails once")
        func first() throws { #expect(try FlakyTest.hasRun()) }

        @Test("The second test fails once")
        func second() throws { #expect(try FlakyTest.hasRun()) }

        @Test("The third test fails once")
        func third() throws { #expect(try FlakyTest.hasRun()) }

        @Test("A test that never fails runs once")
        func sound() throws { #expect(try !FlakyTest.hasRun()) }
    }
#endif
