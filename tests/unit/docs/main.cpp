// docs_figures compare|write FOLDER_OF_DOCS: compares docs/scaling.md with the sizes of this
// build's types, or writes them into it. Exit code 1: the document differs; 77: its figures are of
// another kind of machine.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/unit/docs/figures.hpp"

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Prints the first line that differs.
void say_difference(const std::string& is, const std::string& should_be) {
  std::size_t start = 0;
  for (std::size_t i = 0; i < is.size() && i < should_be.size() && is[i] == should_be[i]; ++i)
    if (is[i] == '\n') start = i + 1;
  std::printf("is:        %s\nshould be: %s\n",
              is.substr(start, is.find('\n', start) - start).c_str(),
              should_be.substr(start, should_be.find('\n', start) - start).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc == 3 ? argv[1] : "";
  if (command != "compare" && command != "write") return 2;
#if !defined(__x86_64__)
  std::puts("skipped: docs/scaling.md has the sizes of x86-64");
  return 77;
#endif
  try {
    const std::string path = std::string(argv[2]) + "/scaling.md";
    const std::string document = read(path);
    const std::string right =
        weft::docs::with_figures(document, weft::docs::figures(weft::docs::sizes()));
    if (document == right) return 0;
    if (command == "write") {
      std::ofstream(path) << right;
      return 0;
    }
    say_difference(document, right);
    std::printf("docs/scaling.md is not true: `%s write %s` corrects it\n", argv[0], argv[2]);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
  }
  return 1;
}
