// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import Provisioning

// IDs are random, never row numbers. All have the same type; the name of each alias says what its IDs identify.

package typealias UserID = RandomID
package typealias DeviceID = RandomID
package typealias TokenID = RandomID
package typealias InvitationID = RandomID
package typealias RuleID = RandomID
