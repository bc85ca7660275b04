// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkExtension
public import PacketTunnel

extension StopReason {
    /// Converts the system's reason.
    public init(_ reason: NEProviderStopReason) {
        self =
            switch reason {
            case .userInitiated: .userInitiated
            case .providerFailed: .providerFailed
            case .noNetworkAvailable: .noNetworkAvailable
            case .unrecoverableNetworkChange: .unrecoverableNetworkChange
            case .providerDisabled: .providerDisabled
            case .authenticationCanceled: .authenticationCanceled
            case .configurationFailed: .configurationFailed
            case .idleTimeout: .idleTimeout
            case .configurationDisabled: .configurationDisabled
            case .configurationRemoved: .configurationRemoved
            case .superceded: .superseded
            case .userLogout: .userLogout
            case .userSwitch: .userSwitch
            case .connectionFailed: .connectionFailed
            case .sleep: .sleep
            case .appUpdate: .appUpdate
            case .none, .internalError: .unknown
            @unknown default: .unknown
            }
    }
}
