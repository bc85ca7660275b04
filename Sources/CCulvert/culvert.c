// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// The functions are Swift, in Sources/CulvertC; this file only checks that the header compiles by itself.
#include "culvert.h"
