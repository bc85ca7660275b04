// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import SwiftUI

/// The WireGuard screen: a spinner, a welcome, or the profiles; alerts are above them.
struct TunnelsView: View {
    @Bindable var model: TunnelModel
    @State private var isAdding = false

    var body: some View {
        NavigationStack {
            VStack {
                switch model.screen {
                case .loading: ProgressView("Reading tunnels")
                case .unreadable:
                    Text("The tunnels that are stored cannot be read.").foregroundStyle(.secondary)
                    Button("Read again") { Task { await model.load() } }
                    UnreadableList(profiles: model.unreadable, stop: model.stop, remove: model.remove)
                case .welcome: WelcomeView { isAdding = true }
                case .profiles: ProfileList(model: model)
                }
            }
            .navigationTitle("Tunnels")
            .toolbar {
                Button("Add", systemImage: "plus") { isAdding = true }
            }
            .sheet(isPresented: $isAdding) { ImportView(model: model) }
        }
        .alert(model.alert?.title ?? "", isPresented: $model.isAlerting) {
            Button("OK") {}
        } message: {
            Text(model.alert?.message ?? "")
        }
        .confirmationDialog(
            "Remove \(model.removal?.name ?? "") and its keys?", isPresented: $model.isConfirmingRemoval
        ) {
            Button("Remove", role: .destructive) { Task { await model.remove() } }
        }
    }
}

/// The screen of a user without tunnels.
private struct WelcomeView: View {
    let begin: @MainActor () -> Void

    var body: some View {
        VStack(spacing: 16) {
            Image(systemName: "lock.shield").font(.largeTitle)
            Text("Welcome").font(.title)
            Text("Add a tunnel from the text of a wg-quick file. The system asks once whether this app may install it.")
                .foregroundStyle(.secondary)
            Button("Install a tunnel", action: begin)
        }
    }
}

/// All profiles.
private struct ProfileList: View {
    let model: TunnelModel

    var body: some View {
        List {
            ForEach(model.profiles) { profile in
                NavigationLink {
                    ProfileView(model: model, profile: profile)
                } label: {
                    ProfileRow(model: model, profile: profile)
                }
            }
            .onDelete { places in model.removal = places.min().map { model.profiles[$0] } }
            // The rows above show the profiles with a known last value.
            UnreadableList(
                profiles: model.unreadable.filter { known in !model.profiles.contains { $0.id == known.id } },
                stop: model.stop, remove: model.remove)
        }
    }
}

/// One profile: its name, its status, a switch, and a spinner while something is being done with it.
private struct ProfileRow: View {
    let model: TunnelModel
    let profile: TunnelProfile

    private var status: TunnelStatus { model.statuses[profile.id]?.status ?? .disconnected }

    var body: some View {
        HStack {
            VStack(alignment: .leading) {
                Text(profile.name)
                Text(status.rawValue).font(.caption).foregroundStyle(.secondary)
            }
            Spacer()
            if model.busy.contains(profile.id) { ProgressView() }
            TunnelSwitch(model: model, profile: profile, status: status)
        }
    }
}

/// Starts and stops a tunnel.
struct TunnelSwitch: View {
    let model: TunnelModel
    let profile: TunnelProfile
    let status: TunnelStatus

    var body: some View {
        Toggle(
            "Connected",
            isOn: Binding(get: { [status] in status.isActive }, set: { _ in Task { await model.toggle(profile) } }))
    }
}
