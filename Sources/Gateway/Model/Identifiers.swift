// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import Provisioning

// Ids are random, never row numbers, and one type has them all: what they are of stands in the names.

package typealias UserID = RandomID
package typealias DeviceID = RandomID
package typealias TokenID = RandomID
package typealias InvitationID = RandomID
package typealias RuleID = RandomID
