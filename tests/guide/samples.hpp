// The guide's samples: functions that every rank of one job of four calls.
#pragma once

#include "weft/world.hpp"

void halo_exchange(weft::World& world);
void sum_over_ranks(weft::World& world);
void mean_by_a_plan(weft::World& world);
void groups(weft::World& world);
void messages(weft::World& world);
void dynamic_slot(weft::World& world);
void published_slot(weft::World& world);
void rendezvous(weft::World& world);
void every_consistency(weft::World& world);
void sparse_rows(weft::World& world);
void checkpoints(weft::World& world, const char* folder);
void timeouts(weft::World& world);
void mismatch(weft::World& world);
void any_order(weft::World& world);
