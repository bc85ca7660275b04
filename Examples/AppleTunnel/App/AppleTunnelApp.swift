// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import SwiftUI

/// Profiles, a switch for each, and how their tunnels do.
@main
struct AppleTunnelApp: App {
    @State private var model = TunnelModel(TunnelModel.makeManager())
    @State private var login = LoginModel(LoginModel.makeManager())

    var body: some Scene {
        WindowGroup {
            TabView {
                ProfileList(model: model)
                    .tabItem { Label("WireGuard", systemImage: "key") }
                LoginView(model: login)
                    .tabItem { Label("Login", systemImage: "person") }
            }
            .task {
                await model.load()
                await login.load()
            }
        }
    }
}
