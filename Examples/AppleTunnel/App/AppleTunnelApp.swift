// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelApple
import SwiftUI

/// Profiles with a switch for each, a tunnel with a login, a tunnel with addKey, a pinned request, and the log of all of it.
@main
struct AppleTunnelApp: App {
    @State private var model: TunnelModel
    @State private var login: LoginModel
    @State private var addKey: AddKeyModel
    @State private var log: LogModel
    @State private var pinned = PinnedModel()

    init() {
        let (tunnels, logins) = (TunnelModel.makeManager(), LoginModel.makeManager())
        let addKeys = AddKeyModel.makeManager()
        _model = State(wrappedValue: TunnelModel(tunnels))
        _login = State(wrappedValue: LoginModel(logins))
        _addKey = State(wrappedValue: AddKeyModel(addKeys))
        _log = State(wrappedValue: LogModel(SharedLog.app, managers: [tunnels, logins, addKeys]))
    }

    var body: some Scene {
        WindowGroup {
            TabView {
                TunnelsView(model: model)
                    .tabItem { Label("WireGuard", systemImage: "key") }
                LoginView(model: login)
                    .tabItem { Label("Login", systemImage: "person") }
                AddKeyView(model: addKey)
                    .tabItem { Label("addKey", systemImage: "network") }
                PinnedView(model: pinned)
                    .tabItem { Label("Pinning", systemImage: "lock") }
                LogView(model: log)
                    .tabItem { Label("Log", systemImage: "list.bullet") }
            }
            .task {
                await model.load()
                await login.load()
                await addKey.load()
            }
        }
    }
}
