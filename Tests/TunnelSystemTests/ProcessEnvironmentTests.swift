// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TunnelSystem

@Suite("The environment of a process")
struct ProcessEnvironmentTests {
    @Test("Assignments have the variables that are set, in the order of their names")
    func assignments() throws {
        let path = try #require(ProcessEnvironment.value("PATH"))
        #expect(ProcessEnvironment.assignments(["CULVERT_IS_NOT_SET", "PATH"]) == ["PATH=\(path)"])
        #expect(ProcessEnvironment.assignments([]).isEmpty)
    }
}
