// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// The functions are Swift, in Sources/CulvertC; this only shows the compiler that the header stands alone.
#include "culvert.h"
