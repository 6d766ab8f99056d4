// The outcome of an experiment: rows, the paper's figures beside them, and how both are drawn.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace weft::bench {

/// A word or a number. Numbers that were not measured are empty words.
using Cell = std::variant<std::string, double>;

/// The columns of a picture: a panel for each value of `panel`, in it a line for each of `line`, or
/// bars where `x` has words. `low` and `high` are the ends of the spread.
struct Drawing {
  std::string panel{};
  std::string line{};
  std::string x{};
  std::string y{};
  std::string low{};
  std::string high{};
  std::string x_label{};
  std::string y_label{};
  bool log_x = false;
  bool log_y = false;
};

struct Sheet {
  std::string name{};   ///< the experiment's
  std::string title{};  ///< with fabric, ranks and compute
  std::vector<std::string> columns{};
  std::vector<std::vector<Cell>> rows{};  ///< a cell for each column
  std::vector<std::string> beside{};      ///< a line for each of the paper's figures, with ours
  std::optional<Drawing> drawing{};
};

/// "12.3", "0.0456", "1234": a number with three digits that count.
std::string number_text(double value);

/// Title, rows and the lines beside them.
std::string text_of(const Sheet& sheet);
/// A line of headings, and a line for each row.
std::string csv_of(const Sheet& sheet);
/// {"experiment", "title", "rows": [{column: value}], "beside": [...]}
std::string json_of(const Sheet& sheet);

}  // namespace weft::bench
