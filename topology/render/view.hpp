// What a picture of a machine is made from.
#pragma once

#include "topology/model/model.hpp"
#include "topology/select/select.hpp"

namespace weft::topology::render {

/// A machine and what was chosen on it. What it refers to must outlive it.
struct View {
  const Model& model;
  const Selection& selection;
  const Policy& policy;

  const Gpu& gpu(int index) const { return model.gpus[static_cast<std::size_t>(index)]; }
  const Nic& nic(int index) const { return model.nics[static_cast<std::size_t>(index)]; }
  const NicVerdict& verdict(int nic) const { return selection.nics[static_cast<std::size_t>(nic)]; }
  /// The first choice for that GPU; null: it has no rank.
  const Choice* choice_of(int gpu) const;
};

/// What a choice says of one NIC; null: nothing.
const Candidate* candidate_of(const Choice& choice, int nic);

}  // namespace weft::topology::render
