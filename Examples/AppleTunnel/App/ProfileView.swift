// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import SwiftUI

/// A tunnel: switch, status, live traffic, editing, removal.
struct ProfileView: View {
    let model: TunnelModel
    let profile: TunnelProfile
    @State private var form: ProfileForm?
    @State private var isEditing = false

    private var status: TunnelStatusUpdate { model.statuses[profile.id] ?? TunnelStatusUpdate(.disconnected) }

    var body: some View {
        Form {
            Section("Tunnel") {
                TunnelSwitch(model: model, profile: profile, status: status.status)
                LabeledContent("Status", value: status.status.rawValue)
                if model.busy.contains(profile.id) { ProgressView() }
                if let error = status.error {
                    Text(error.description).foregroundStyle(.red)
                }
                Toggle(
                    "On demand",
                    isOn: Binding(
                        get: { [profile] in profile.isOnDemandEnabled },
                        set: { isOn in Task { await model.setOnDemand(isOn, of: profile) } }))
            }
            if let traffic = model.traffic[profile.id] { TrafficSection(traffic: traffic) }
            Button("Remove", role: .destructive) { model.removal = profile }
        }
        .navigationTitle(profile.name)
        .toolbar {
            Button("Edit") {
                form = model.form(of: profile)
                isEditing = form != nil
            }
        }
        .sheet(isPresented: $isEditing) {
            if let form { ProfileEditor(model: model, profile: profile, form: form) }
        }
        .task { await model.watch(profile) }
    }
}

/// The live traffic of a tunnel.
private struct TrafficSection: View {
    let traffic: Traffic

    var body: some View {
        Section("Traffic") {
            LabeledContent("State", value: traffic.state)
            LabeledContent("Received", value: amount(traffic.received, traffic.receivedRate))
            LabeledContent("Sent", value: amount(traffic.sent, traffic.sentRate))
            if let age = traffic.handshakeAge {
                LabeledContent("Last handshake", value: "\(Int(age)) s ago")
            }
            if traffic.pings.sent > 0 {
                LabeledContent("Pings", value: "\(traffic.pings.replies) of \(traffic.pings.sent) answered")
            }
        }
    }

    private func amount(_ bytes: UInt64, _ rate: Double) -> String {
        let (all, second) = (bytes, UInt64(rate))
        return "\(all.formatted(.byteCount(style: .binary))), \(second.formatted(.byteCount(style: .binary)))/s"
    }
}
