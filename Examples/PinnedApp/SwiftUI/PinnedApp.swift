// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import SwiftUI

/// An app with pinned requests, environments, a client identity and signed policies.
@main
struct PinnedApp: App {
    @State private var start: Result<PinnedAppModel, any Error>

    init() {
        _start = State(wrappedValue: Result { try PinnedAppModel(.example(folder: PinnedAppSettings.supportFolder())) })
    }

    var body: some Scene {
        WindowGroup {
            switch start {
            case .success(let model): PinnedAppView(model: model).task { await model.restore() }
            case .failure(let error): Text("The app's settings are not valid: \(error)")
            }
        }
    }
}
