// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(SwiftUI)
    import Foundation
    import PacketTunnel
    import SwiftUI

    /// The app's screen: a form for the profile, or the tunnel's switch and status.
    struct TunnelView: View {
        @Bindable var model: AppModel
        @State private var server = ""
        @State private var serverKey = ""
        @State private var login = ""
        @State private var password = ""

        var body: some View {
            Form {
                if let message = model.message { Text(message).foregroundStyle(.red) }
                if model.profile == nil {
                    Section("Welcome") {
                        TextField("Server (address:port)", text: $server)
                        TextField("Server key", text: $serverKey)
                        TextField("User name", text: $login)
                        SecureField("Password", text: $password)
                        Button("Install") { Task { await install() } }
                    }
                } else {
                    Section("Tunnel") {
                        Toggle(
                            "Connected",
                            isOn: Binding(
                                get: { [status = model.status.status] in status.isActive },
                                set: { _ in Task { await model.toggle() } }))
                        LabeledContent("Status", value: model.status.status.rawValue)
                    }
                    Section("Password") {
                        SecureField("New password", text: $password)
                        Button("Save") { Task { await save() } }
                    }
                    Button("Remove", role: .destructive) { Task { await model.remove() } }
                }
            }
            .task { await model.load() }
        }

        private func install() async {
            guard let key = Data(base64Encoded: serverKey) else {
                model.problem = "the server key is not valid"
                return
            }
            await model.install(
                LoginConfiguration(server: server, serverKey: key, login: login), password: password)
            password = ""
        }

        private func save() async {
            await model.setPassword(password)
            password = ""
        }
    }
#endif
