// Everything a program needs that moves tensors between ranks.
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
