// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import SwiftUI
import TrustPinning

/// The page of the app: environment, request, client identity, signed policies, events.
struct PinnedAppView: View {
    @Bindable var model: PinnedAppModel

    var body: some View {
        NavigationStack {
            Form {
                Section("Server") {
                    Picker(
                        "Environment",
                        selection: Binding(
                            get: { [environment = model.environment] in environment },
                            set: { environment in Task { await model.select(environment) } })
                    ) {
                        ForEach(model.environments, id: \.self) { environment in
                            Text(environment.rawValue).tag(environment)
                        }
                    }
                    Button("Request a greeting") { Task { await model.send() } }.disabled(model.isBusy)
                    if model.isBusy { ProgressView() }
                    if let outcome = model.outcome {
                        Text(outcome.text).foregroundStyle(outcome.isTrusted ? Color.primary : Color.red)
                    }
                }
                IdentitySection(model: model)
                Section("Signed policies") {
                    LabeledContent("Version", value: model.versions[model.environment].map { "\($0)" } ?? "built in")
                    Button("Update") { Task { await model.update() } }.disabled(model.isBusy)
                }
                Section("Events") {
                    ForEach(model.events) { event in
                        Text(event.text)
                            .font(.caption.monospaced())
                            .foregroundStyle(event.isProblem ? Color.red : Color.primary)
                    }
                }
            }
            .navigationTitle("Pinned requests")
        }
    }
}

/// The client identity, from `client.p12` in the app's bundle.
private struct IdentitySection: View {
    @Bindable var model: PinnedAppModel

    var body: some View {
        Section("Client identity") {
            LabeledContent("Identity", value: model.identified.contains(model.environment) ? "read" : "none")
            SecureField("Passphrase of client.p12", text: $model.passphrase)
            Button("Read client.p12") {
                // Without the file, the empty bundle is refused, and the list of events shows it.
                let url = Bundle.main.url(forResource: "client", withExtension: "p12")
                model.importIdentity(Array(url.flatMap { try? Data(contentsOf: $0) } ?? Data()))
            }
        }
    }
}
