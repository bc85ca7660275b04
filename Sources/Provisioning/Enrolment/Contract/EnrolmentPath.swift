// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The paths of the device API.
public enum EnrolmentPath {
    /// `POST`: enrols a device.
    public static let enrolments = "/v1/enrolments"
    /// `GET`: the grant.
    public static let device = "/v1/device"
    /// `POST`: extends the expiry.
    public static let renewal = "/v1/device/renew"
    /// `POST`: requests the nonce for a rotation.
    public static let rotationNonces = "/v1/device/rotation-nonces"
    /// `POST`: replaces the key.
    public static let rotations = "/v1/device/rotations"
    /// `GET`: lists the user's devices. `DELETE` with an appended ID revokes that device.
    public static let devices = "/v1/devices"
    /// `GET`: reports whether the gateway answers.
    public static let health = "/v1/health"
    /// The default port of the device API.
    public static let defaultPort: UInt16 = 8443

    /// `DELETE` revokes the device.
    public static func device(_ id: RandomID) -> String { "\(devices)/\(id)" }
}
