// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
//
// The headers of the C and C++ libraries that BoringSSL's files include; see dev/precompiled-header.

#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
