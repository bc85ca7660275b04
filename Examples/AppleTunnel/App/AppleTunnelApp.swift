// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import SwiftUI

/// Profiles, a switch for each, and how their tunnels do.
@main
struct AppleTunnelApp: App {
    @State private var model = TunnelModel(TunnelModel.makeManager())

    var body: some Scene {
        WindowGroup {
            ProfileList(model: model)
                .task { await model.load() }
        }
    }
}
