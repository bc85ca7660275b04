// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import SwiftUI
import WireGuardTunnel

/// How a tunnel does, asked every second while it is shown.
struct ProfileView: View {
    let model: TunnelModel
    let profile: TunnelProfile
    @State private var reply: StatusRequest.Reply?

    var body: some View {
        Form {
            Section("Tunnel") {
                LabeledContent("Status", value: model.statuses[profile.id]?.status.rawValue ?? "")
                if let error = model.statuses[profile.id]?.error {
                    Text(error.description).foregroundStyle(.red)
                }
                Toggle(
                    "On demand",
                    isOn: Binding(
                        get: { profile.isOnDemandEnabled },
                        set: { isOn in Task { await model.setOnDemand(isOn, of: profile) } }))
            }
            if let reply {
                Section("Traffic") {
                    LabeledContent("Received", value: reply.receivedBytes.formatted(.byteCount(style: .binary)))
                    LabeledContent("Sent", value: reply.sentBytes.formatted(.byteCount(style: .binary)))
                }
            }
        }
        .navigationTitle(profile.name)
        .task {
            while !Task.isCancelled {
                reply = await model.statistics(of: profile)
                try? await Task.sleep(for: .seconds(1))
            }
        }
    }
}
