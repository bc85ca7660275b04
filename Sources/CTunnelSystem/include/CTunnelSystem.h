// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#ifndef CTUNNEL_SYSTEM_H
#define CTUNNEL_SYSTEM_H

#include "ctunnel_confinement.h"
#include "ctunnel_descriptors.h"
#include "ctunnel_ipsec_mb.h"
#include "ctunnel_library.h"
#include "ctunnel_memory.h"
#include "ctunnel_privileges.h"
#include "ctunnel_process.h"
#include "ctunnel_tun.h"
#include "ctunnel_udp.h"

#endif
