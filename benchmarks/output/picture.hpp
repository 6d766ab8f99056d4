// A benchmark's rows as a picture, drawn by matplotlib.
#pragma once

#include <string>
#include <vector>

namespace weft::bench {

/// Draws the rows of `csv_file`, as write_csv() writes them, into `svg_file`: times by size, a line
/// for each column. Without Python or matplotlib, prints a line to stderr and draws nothing. Throws
/// std::runtime_error, one line, if the picture can't be drawn.
void draw(const std::string& csv_file, const std::string& svg_file, const std::string& benchmark);
/// The same by another script, which lies beside the program.
void draw_by(const std::string& script, const std::string& csv_file, const std::string& svg_file,
             const std::string& benchmark);
/// Runs a script that lies beside the program, with any words; it draws `svg_file`.
void run_plot(const std::string& script, std::vector<std::string> words,
              const std::string& csv_file, const std::string& svg_file);

}  // namespace weft::bench
