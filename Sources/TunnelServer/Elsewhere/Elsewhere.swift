// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// What a build on another system has of this module: nothing.
