// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The colours of a terminal; none if the output is not a terminal, or if the user disables them.
package struct Paint {
    package enum Colour: String {
        case red = "31"
        case green = "32"
        case yellow = "33"
        case cyan = "36"
        case grey = "90"
        case bold = "1"
    }

    package var isOn: Bool

    package init(_ console: Console) { isOn = console.isLive }

    package func callAsFunction(_ text: String, _ colour: Colour) -> String {
        isOn ? "\u{1b}[\(colour.rawValue)m\(text)\u{1b}[0m" : text
    }

    /// `text`, or the name of the state, in the colour of a tunnel's state.
    package func state(_ state: String, _ text: String? = nil) -> String {
        let text = text ?? state
        return switch state {
        case "connected": self(text, .green)
        case "connecting", "reasserting", "disconnecting": self(text, .yellow)
        case "disconnected": text
        default: self(text, .red)
        }
    }
}
