// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation

@_exported import Foundation

// The few names of UIKit that Examples/PinnedApp uses, with the signatures of
// https://developer.apple.com/documentation/uikit/uiview
// https://developer.apple.com/documentation/uikit/uilabel
// https://developer.apple.com/documentation/uikit/uiviewcontroller
// https://developer.apple.com/documentation/uikit/uiresponder
// https://developer.apple.com/documentation/uikit/uiwindow
// https://developer.apple.com/documentation/uikit/uiapplication
// https://developer.apple.com/documentation/uikit/uiapplicationdelegate

// It is compiled for Macs too, which have none.

@MainActor @preconcurrency
open class UIResponder: NSObject {}

@MainActor @preconcurrency
open class UIView: UIResponder {}

@MainActor @preconcurrency
open class UILabel: UIView {
    open var text: String?
}

@MainActor @preconcurrency
open class UIViewController: UIResponder {
    open var view: UIView?

    public init(nibName nibNameOrNil: String?, bundle nibBundleOrNil: Bundle?) {}

    public required init?(coder: NSCoder) { nil }

    open func loadView() {}

    open func viewDidLoad() {}
}

@MainActor @preconcurrency
open class UIWindow: UIView {
    open var rootViewController: UIViewController?

    open func makeKeyAndVisible() {}
}

@MainActor @preconcurrency
open class UIApplication: UIResponder {
    public struct LaunchOptionsKey: RawRepresentable, Hashable, Sendable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
    }
}

@MainActor @preconcurrency
public protocol UIApplicationDelegate: NSObjectProtocol {
    // Both are optional.
    var window: UIWindow? { get set }

    func application(
        _ application: UIApplication,
        didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool
}

extension UIApplicationDelegate {
    @MainActor @preconcurrency
    public static func main() {}
}
