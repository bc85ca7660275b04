// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// This module is empty on systems other than Linux.
