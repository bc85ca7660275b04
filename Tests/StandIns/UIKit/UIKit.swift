// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation

@_exported import Foundation

// The few names of UIKit that Examples/PinnedApp uses, with the signatures of
// https://developer.apple.com/documentation/uikit/uiview
// https://developer.apple.com/documentation/uikit/uilabel
// https://developer.apple.com/documentation/uikit/uiviewcontroller

// It is compiled for Macs too, which have none.

@MainActor @preconcurrency
open class UIView: NSObject {}

@MainActor @preconcurrency
open class UILabel: UIView {
    open var text: String?
}

@MainActor @preconcurrency
open class UIViewController: NSObject {
    open var view: UIView?

    public init(nibName nibNameOrNil: String?, bundle nibBundleOrNil: Bundle?) {}

    public required init?(coder: NSCoder) { nil }

    open func loadView() {}

    open func viewDidLoad() {}
}
