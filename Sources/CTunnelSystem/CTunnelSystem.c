#include "CTunnelSystem.h"
