// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Checks that the headers compile on their own as C.
#include "CTunnelSystem.h"
