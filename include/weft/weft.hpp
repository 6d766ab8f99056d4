// Everything a program needs that moves tensors between ranks.
#pragma once

#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/rendezvous.hpp"
#include "weft/report.hpp"
#include "weft/slot.hpp"
#include "weft/tensor.hpp"
#include "weft/world.hpp"
