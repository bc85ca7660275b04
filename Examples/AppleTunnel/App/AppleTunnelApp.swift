// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelApple
import SwiftUI

/// Profiles with a switch for each, a tunnel with a login, a pinned request, and the log of all of it.
@main
struct AppleTunnelApp: App {
    @State private var model: TunnelModel
    @State private var login: LoginModel
    @State private var log: LogModel
    @State private var pinned = PinnedModel()

    init() {
        let (tunnels, logins) = (TunnelModel.makeManager(), LoginModel.makeManager())
        _model = State(wrappedValue: TunnelModel(tunnels))
        _login = State(wrappedValue: LoginModel(logins))
        _log = State(wrappedValue: LogModel(SharedLog.app, managers: [tunnels, logins]))
    }

    var body: some Scene {
        WindowGroup {
            TabView {
                TunnelsView(model: model)
                    .tabItem { Label("WireGuard", systemImage: "key") }
                LoginView(model: login)
                    .tabItem { Label("Login", systemImage: "person") }
                PinnedView(model: pinned)
                    .tabItem { Label("Pinning", systemImage: "lock") }
                LogView(model: log)
                    .tabItem { Label("Log", systemImage: "list.bullet") }
            }
            .task {
                await model.load()
                await login.load()
            }
        }
    }
}
