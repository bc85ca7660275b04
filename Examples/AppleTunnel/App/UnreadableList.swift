// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import SwiftUI

/// A list of profiles that cannot be read. Their tunnels may be up, so the user can stop each tunnel, and can remove
/// each profile and its keys after a confirmation.
struct UnreadableList: View {
    let profiles: [UnreadableProfile]
    let stop: @MainActor (UnreadableProfile) async -> Void
    let remove: @MainActor (UnreadableProfile) async -> Void
    @State private var removal: UnreadableProfile?
    @State private var isConfirmingRemoval = false

    var body: some View {
        ForEach(profiles) { profile in
            HStack {
                Text(profile.name)
                Spacer()
                Button("Stop") { Task { await stop(profile) } }
                Button("Remove", role: .destructive) {
                    removal = profile
                    isConfirmingRemoval = true
                }
            }
            .buttonStyle(.borderless)
        }
        .confirmationDialog(
            "Remove \(removal?.name ?? "") and its keys?", isPresented: $isConfirmingRemoval, presenting: removal
        ) { profile in
            Button("Remove", role: .destructive) { Task { await remove(profile) } }
        }
    }
}

/// The page of a tunnel that is stored and cannot be read.
struct UnreadablePage: View {
    let model: TunnelPage

    var body: some View {
        Text("The tunnel that is stored cannot be read.").foregroundStyle(.secondary)
        Button("Read again") { Task { await model.load() } }
        UnreadableList(profiles: model.unreadable, stop: model.stop, remove: model.remove)
    }
}
