// All headers for programs that move tensors between ranks; weft/pslib.hpp has the parameter
// server.
#pragma once

#include "weft/collective.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/group.hpp"
#include "weft/message.hpp"
#include "weft/published_slot.hpp"
#include "weft/rendezvous.hpp"
#include "weft/report.hpp"
#include "weft/signal.hpp"
#include "weft/slot.hpp"
#include "weft/tensor.hpp"
#include "weft/world.hpp"
