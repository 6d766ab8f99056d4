#include "tests/deadlines/row.hpp"

namespace weft::tests {

std::vector<Row> all_rows() {
  std::vector<Row> all;
  for (auto rows : {slot_rows, message_rows, exchange_rows, table_rows, subscriber_rows, group_rows,
                    graph_rows, variable_rows})
    for (Row& row : rows()) all.push_back(std::move(row));
  return all;
}

}  // namespace weft::tests
