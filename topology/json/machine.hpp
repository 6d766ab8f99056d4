// The model as JSON: the "machine" of weft-topo/1.
#pragma once

#include <nlohmann/json.hpp>

#include "topology/model/model.hpp"

namespace weft::topology {

/// import/weft_json.cpp reads what this writes; the two change together.
nlohmann::ordered_json machine_json(const Model& model);

}  // namespace weft::topology
