// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// On other systems the module is empty.
