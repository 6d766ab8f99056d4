// Writes the model as JSON: "machine" of weft-topo/1.
#pragma once

#include <nlohmann/json.hpp>

#include "topology/model/model.hpp"

namespace weft::topology {

/// import/weft_json.cpp reads this format; the two files must change together.
nlohmann::ordered_json machine_json(const Model& model);

}  // namespace weft::topology
