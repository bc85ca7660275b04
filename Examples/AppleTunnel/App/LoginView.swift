// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import PacketTunnel
import SwiftUI

/// The tunnel with a login: a form to install it, or its details.
struct LoginView: View {
    @Bindable var model: LoginModel

    var body: some View {
        NavigationStack {
            Form {
                if !model.isLoaded {
                    ProgressView()
                } else if model.isUnreadable {
                    UnreadablePage(model: model)
                } else if model.profile == nil {
                    Section("Welcome") { Text(LoginModel.welcome) }
                    Section("Install") { LoginFields(model: model) }
                    Button("Install") { Task { await model.install() } }
                } else {
                    LoginDetails(model: model)
                }
                if model.isLoaded, model.isBusy { ProgressView() }
            }
            .navigationTitle("Login")
        }
        .alert(model.alert?.title ?? "", isPresented: $model.isAlerting) {
            Button("OK") {}
        } message: {
            Text(model.alert?.message ?? "")
        }
    }
}

/// The input fields of a login. The password is never shown, and both secrets stay unchanged while their fields are empty.
private struct LoginFields: View {
    @Bindable var model: LoginModel

    var body: some View {
        TextField("Server (host:port)", text: $model.details.server)
        TextField("User name", text: $model.details.login)
        SecureField("Password", text: $model.details.password)
        TextField("Server key", text: $model.details.serverKey)
        SecureField("Pre-shared key", text: $model.details.presharedKey)
    }
}

/// An installed profile: switch, status, fields, removal.
private struct LoginDetails: View {
    @Bindable var model: LoginModel
    @State private var reply: CredentialStatusRequest.Reply?

    var body: some View {
        Section("Tunnel") {
            Toggle(
                "Enabled",
                isOn: Binding(
                    get: { [isEnabled = model.isEnabled] in isEnabled },
                    set: { isOn in Task { await model.setEnabled(isOn) } }))
            Toggle(
                "Connected",
                isOn: Binding(
                    get: { [status = model.status.status] in status.isActive },
                    set: { _ in Task { await model.toggle() } })
            )
            .disabled(!model.isEnabled && !model.status.status.isActive)
            LabeledContent("Status", value: model.statusText)
            if let error = model.status.error {
                Text(error.description).foregroundStyle(.red)
            }
            if let reply {
                LabeledContent("Received", value: reply.receivedBytes.formatted(.byteCount(style: .binary)))
                LabeledContent("Sent", value: reply.sentBytes.formatted(.byteCount(style: .binary)))
            }
        }
        Section("Details") {
            LoginFields(model: model)
            Button("Save") { Task { await model.save() } }
            Text("A running tunnel reconnects with the changes.").font(.caption).foregroundStyle(.secondary)
        }
        Button("Remove", role: .destructive) { model.isConfirmingRemoval = true }
            .confirmationDialog("Remove this tunnel and its password?", isPresented: $model.isConfirmingRemoval) {
                Button("Remove", role: .destructive) { Task { await model.remove() } }
            }
            .task {
                while !Task.isCancelled {
                    reply = await model.statistics()
                    try? await Task.sleep(for: .seconds(1))
                }
            }
    }
}
