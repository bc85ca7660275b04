// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import SwiftUI

/// Edits a profile. An alert shows errors, and the form stays.
struct ProfileEditor: View {
    let model: TunnelModel
    let profile: TunnelProfile
    @State var form: ProfileForm
    @Environment(\.dismiss) private var dismiss

    var body: some View {
        NavigationStack {
            Form {
                Section("Tunnel") {
                    TextField("Name", text: $form.name)
                    TextField("Server (host:port)", text: $form.endpoint)
                    TextField("Networks through the tunnel", text: $form.allowedIPs)
                    TextField("Name servers", text: $form.nameServers)
                    TextField("MTU", text: $form.mtu)
                    TextField("Keepalive (seconds)", text: $form.keepalive)
                    SecureField("New private key", text: $form.privateKey)
                    Toggle("On demand", isOn: $form.isOnDemand)
                }
                PingSection(ping: $form.ping)
            }
            .navigationTitle("Edit \(profile.name)")
            .toolbar {
                Button("Cancel") { dismiss() }
                Button("Save") {
                    Task {
                        if await model.save(form, of: profile) { dismiss() }
                    }
                }
                .disabled(model.busy.contains(profile.id) || form.name.isEmpty)
            }
        }
    }
}

/// The detection of a dead tunnel, and its consequences.
private struct PingSection: View {
    @Binding var ping: PingSettings

    var body: some View {
        Section("When no data arrives") {
            Toggle("Watch the tunnel", isOn: $ping.isWatched)
            if ping.isWatched {
                TextField("Address to ping", text: $ping.address)
                TextField("Seconds between checks", text: $ping.interval)
                TextField("Looks that may find nothing", text: $ping.attempts)
                TextField("Seconds between two pings", text: $ping.pingInterval)
                Toggle("Stop instead of healing", isOn: $ping.stopsWhenDead)
            }
        }
    }
}
