// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Testing

@Suite("The limit of open descriptors")
struct DescriptorLimitTests {
    @Test("The limit is raised to the requested number within the hard limit, and never lowered")
    func raised() {
        let had = ctunnel_raise_descriptor_limit(0)
        #expect(had > 0)
        let wanted = ctunnel_raise_descriptor_limit(had + 1)
        #expect(wanted == had || wanted == had + 1)
        #expect(ctunnel_raise_descriptor_limit(16) == wanted)
        // Larger than any system's limit: the result is the hard limit, or the limit before.
        #expect(ctunnel_raise_descriptor_limit(1 << 62) >= wanted)
    }
}
