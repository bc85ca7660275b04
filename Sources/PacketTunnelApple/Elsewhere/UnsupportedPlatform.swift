// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// A build for another system has an empty module.
