// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Everything is in the headers; SwiftPM wants one source file.
#include "CTunnelSystem.h"
