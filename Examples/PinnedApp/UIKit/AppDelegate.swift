// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(UIKit)
    import UIKit
    import os

    /// Starts the app with UIKit instead of SwiftUI: it restores the signed policies, then shows the greeting.
    @main
    final class AppDelegate: UIResponder, UIApplicationDelegate {
        var window: UIWindow?
        private var model: PinnedAppModel?

        func application(
            _ application: UIApplication,
            didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
        ) -> Bool {
            do {
                let settings = try PinnedAppSettings.example(folder: PinnedAppSettings.supportFolder())
                let model = try PinnedAppModel(settings)
                let window = UIWindow()
                (self.model, self.window) = (model, window)
                Task {
                    await model.restore()
                    guard let server = settings.servers[settings.selected] else { return }
                    window.rootViewController = GreetingController(client: model.session, url: server.greeting)
                    window.makeKeyAndVisible()
                }
                return true
            } catch {
                Logger(subsystem: "com.example.PinnedApp", category: "start").log(
                    level: .error, "the app's settings are not valid: \("\(error)", privacy: .public)")
                return false
            }
        }
    }
#endif
