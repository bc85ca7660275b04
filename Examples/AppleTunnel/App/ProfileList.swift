// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import SwiftUI

/// All profiles.
struct ProfileList: View {
    let model: TunnelModel
    @State private var isAdding = false

    var body: some View {
        NavigationStack {
            List {
                ForEach(model.profiles) { profile in
                    NavigationLink {
                        ProfileView(model: model, profile: profile)
                    } label: {
                        ProfileRow(model: model, profile: profile)
                    }
                }
                .onDelete { places in
                    let profiles = places.map { model.profiles[$0] }
                    Task { for profile in profiles { await model.remove(profile) } }
                }
                if let problem = model.problem {
                    Text(problem).foregroundStyle(.red)
                }
            }
            .navigationTitle("Tunnels")
            .toolbar {
                Button("Add", systemImage: "plus") { isAdding = true }
            }
            .sheet(isPresented: $isAdding) { ImportView(model: model) }
        }
    }
}

/// One profile: its name, its status, a switch.
private struct ProfileRow: View {
    let model: TunnelModel
    let profile: TunnelProfile

    private var status: TunnelStatus { model.statuses[profile.id]?.status ?? .disconnected }

    var body: some View {
        Toggle(isOn: Binding(get: { [status] in status.isActive }, set: { _ in Task { await model.toggle(profile) } }))
        {
            VStack(alignment: .leading) {
                Text(profile.name)
                Text(status.rawValue).font(.caption).foregroundStyle(.secondary)
            }
        }
    }
}
