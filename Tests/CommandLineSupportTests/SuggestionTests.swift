// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import Testing

@Suite("Suggestions")
struct SuggestionTests {
    @Test("The distance of two words is the number of changes between them")
    func distance() {
        #expect(Suggestion.distance("demo", "demo") == 0)
        #expect(Suggestion.distance("demo", "dmo") == 1)
        #expect(Suggestion.distance("", "key") == 3)
        #expect(Suggestion.distance("check", "chekc") == 2)
    }
}
