// The input of all outputs: a machine and the choices on it.
#pragma once

#include <string>

#include "topology/model/model.hpp"
#include "topology/select/select.hpp"

namespace weft::topology::render {

/// A machine and a selection on it. The referenced objects must outlive the view.
struct View {
  const Model& model;
  const Selection& selection;
  const Policy& policy;

  const Gpu& gpu(int index) const { return model.gpus[static_cast<std::size_t>(index)]; }
  const Nic& nic(int index) const { return model.nics[static_cast<std::size_t>(index)]; }
  const NicVerdict& verdict(int nic) const { return selection.nics[static_cast<std::size_t>(nic)]; }
  /// The reason of the verdict, for people: its rates in bytes and in bits.
  std::string reason(int nic) const;
  /// The first choice for `gpu`; null if no rank has this GPU.
  const Choice* choice_of(int gpu) const;
};

/// The entry for `nic` in `choice`; null if there is none.
const Candidate* candidate_of(const Choice& choice, int nic);

}  // namespace weft::topology::render
