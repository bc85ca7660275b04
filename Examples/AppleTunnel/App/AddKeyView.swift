// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import Provisioning
import SwiftUI

/// The tunnel that `addKey` assigns: a form to install it, or its registration.
struct AddKeyView: View {
    @Bindable var model: AddKeyModel

    var body: some View {
        NavigationStack {
            Form {
                if !model.isLoaded {
                    ProgressView()
                } else if model.isUnreadable {
                    UnreadablePage(model: model)
                } else if model.profile == nil {
                    AddKeyFields(model: model)
                } else {
                    AddKeyDetails(model: model)
                }
                if model.isLoaded, model.isBusy { ProgressView() }
            }
            .navigationTitle("addKey")
        }
        .alert(model.alert?.title ?? "", isPresented: $model.isAlerting) {
            Button("OK") {}
        } message: {
            Text(model.alert?.message ?? "")
        }
    }
}

/// The input fields of a server and an account.
private struct AddKeyFields: View {
    @Bindable var model: AddKeyModel

    var body: some View {
        Section("Install") {
            TextField("Server (IP address)", text: $model.details.serverAddress)
            TextField("Name in its certificate", text: $model.details.commonName)
            TextField("Certificate of its authority (PEM)", text: $model.details.authority, axis: .vertical)
                .font(.body.monospaced())
                .lineLimit(4...)
            TextField("Address to ping", text: $model.details.pingAddress)
            SecureField("Token", text: $model.details.token)
        }
        Button("Install") { Task { await model.install() } }
    }
}

/// An installed profile: switch, status, registration, removal.
private struct AddKeyDetails: View {
    @Bindable var model: AddKeyModel
    @State private var registration: AddKeyStatusRequest.Reply?

    var body: some View {
        Section("Tunnel") {
            Toggle(
                "Connected",
                isOn: Binding(
                    get: { [status = model.status.status] in status.isActive },
                    set: { _ in Task { await model.toggle() } }))
            LabeledContent("Status", value: model.status.status.rawValue)
            if let error = model.status.error {
                Text(error.description).foregroundStyle(.red)
            }
            if let registration {
                LabeledContent("Server", value: registration.server)
                LabeledContent("Address", value: registration.address.description)
            }
        }
        Button("Remove", role: .destructive) { model.isConfirmingRemoval = true }
            .confirmationDialog("Remove this tunnel and its token?", isPresented: $model.isConfirmingRemoval) {
                Button("Remove", role: .destructive) { Task { await model.remove() } }
            }
            .task {
                while !Task.isCancelled {
                    registration = await model.registration()
                    try? await Task.sleep(for: .seconds(1))
                }
            }
    }
}
