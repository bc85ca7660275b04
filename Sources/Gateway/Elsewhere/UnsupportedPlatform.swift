// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// The gateway supports Linux only. This file makes an empty module for other platforms.
