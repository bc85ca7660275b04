// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import SwiftUI

/// Adds a profile from the text of a wg-quick file. Its keys are hidden.
struct ImportView: View {
    let model: TunnelModel
    @Environment(\.dismiss) private var dismiss
    @State private var form = ImportForm()

    var body: some View {
        NavigationStack {
            Form {
                TextField("Name", text: $form.name)
                TextField("Configuration", text: $form.text, axis: .vertical)
                    .font(.body.monospaced())
                    .lineLimit(8...)
            }
            .navigationTitle("Add a tunnel")
            .toolbar {
                Button("Cancel") { dismiss() }
                if model.isInstalling { ProgressView() }
                Button("Install") {
                    Task {
                        if await model.add(wgQuick: form.wgQuick, name: form.name) { dismiss() }
                    }
                }
                .disabled(form.name.isEmpty || form.text.isEmpty || model.isInstalling)
            }
        }
    }
}
