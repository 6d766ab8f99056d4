#include "topology/render/view.hpp"

#include "topology/render/labels.hpp"

namespace weft::topology::render {

std::string View::reason(int nic) const { return in_both_units(verdict(nic).reason); }

const Choice* View::choice_of(int gpu) const {
  for (const Choice& choice : selection.choices)
    if (choice.gpu == gpu) return &choice;
  return nullptr;
}

const Candidate* candidate_of(const Choice& choice, int nic) {
  for (const Candidate& candidate : choice.candidates)
    if (candidate.nic == nic) return &candidate;
  return nullptr;
}

}  // namespace weft::topology::render
