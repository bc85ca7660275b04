// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(UIKit)
    import Foundation
    import TrustPinningFoundation
    import UIKit

    /// The same as ``GreetingView``, with UIKit.
    final class GreetingController: UIViewController {
        private let client: PinnedSession
        private let url: URL
        private let label = UILabel()

        init(client: PinnedSession, url: URL) {
            (self.client, self.url) = (client, url)
            super.init(nibName: nil, bundle: nil)
        }

        required init?(coder: NSCoder) { nil }

        override func loadView() { view = label }

        override func viewDidLoad() {
            super.viewDidLoad()
            Task {
                do {
                    let (data, _) = try await client.data(from: url)
                    label.text = String(decoding: data, as: UTF8.self)
                } catch {
                    label.text = "\(error)"  // Contains the server's key if no pin matches.
                }
            }
        }
    }
#endif
