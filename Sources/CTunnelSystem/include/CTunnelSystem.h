// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#ifndef CTUNNEL_SYSTEM_H
#define CTUNNEL_SYSTEM_H

#if __has_include("ctunnel_tun.h")
#include "ctunnel_tun.h"
#endif
#if __has_include("ctunnel_udp.h")
#include "ctunnel_udp.h"
#endif

#endif
