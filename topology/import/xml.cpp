#include "topology/import/xml.hpp"

#include <expat.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "topology/import/trouble.hpp"

namespace weft::topology {
namespace {

constexpr std::size_t kMostElementDepth = 256;
constexpr std::size_t kMostElements = 400'000;

struct FreeParser {
  void operator()(XML_Parser parser) const noexcept { XML_ParserFree(parser); }
};
using Parser = std::unique_ptr<XML_ParserStruct, FreeParser>;

/// The tree that the handlers build. C code calls the handlers, so no exception may leave them: a
/// problem stops the parser, and parse_xml() reports it afterwards.
struct Building {
  XML_Parser parser = nullptr;
  XmlElement root{};
  std::vector<XmlElement*> open{};
  std::size_t elements = 0;
  bool has_root = false;
  std::string problem{};
  int problem_line = 0;

  int line() const { return static_cast<int>(XML_GetCurrentLineNumber(parser)); }

  void stop(const char* why) noexcept {
    problem_line = line();
    try {
      problem = why;
    } catch (...) {  // no memory for the message: the line number remains
    }
    XML_StopParser(parser, XML_FALSE);
  }
};

/// Runs a handler's body; an exception (only bad_alloc is possible) stops the parser.
template <typename Body>
void guarded(void* user, Body body) noexcept {
  Building& building = *static_cast<Building*>(user);
  try {
    body(building);
  } catch (...) {
    building.stop("there is not enough memory for it");
  }
}

void XMLCALL on_start(void* user, const XML_Char* name, const XML_Char** attributes) {
  guarded(user, [&](Building& building) {
    if (building.open.size() >= kMostElementDepth)
      return building.stop("elements are nested too deeply");
    if (++building.elements > kMostElements) return building.stop("there are too many elements");
    XmlElement* element = &building.root;
    if (building.has_root) {
      element = &building.open.back()->children.emplace_back();
    }
    building.has_root = true;
    element->name = name;
    element->line = building.line();
    for (; *attributes != nullptr; attributes += 2)
      element->attributes.emplace_back(attributes[0], attributes[1]);
    // Only the last child of an open element is open, so the vector that holds the child does not
    // grow until the child is closed.
    building.open.push_back(element);
  });
}

void XMLCALL on_end(void* user, const XML_Char*) {
  guarded(user, [](Building& building) { building.open.pop_back(); });
}

void XMLCALL on_text(void* user, const XML_Char* text, int length) {
  guarded(user, [&](Building& building) {
    if (!building.open.empty())
      building.open.back()->text.append(text, static_cast<std::size_t>(length));
  });
}

void XMLCALL on_entity(void* user, const XML_Char*, int, const XML_Char*, int, const XML_Char*,
                       const XML_Char*, const XML_Char*, const XML_Char*) {
  guarded(user, [](Building& building) {
    building.stop("declares an entity, which no description of a machine needs");
  });
}

}  // namespace

const std::string* XmlElement::attribute(std::string_view wanted) const {
  const auto at = std::find_if(attributes.begin(), attributes.end(),
                               [&](const auto& attribute) { return attribute.first == wanted; });
  return at == attributes.end() ? nullptr : &at->second;
}

XmlElement parse_xml(std::string_view text, const std::string& name) {
  const Parser parser(XML_ParserCreate(nullptr));
  if (!parser) refuse_file(name, 0, "there is not enough memory to read it", "free some memory");
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    refuse_file(name, 0, "is too large");
  Building building{.parser = parser.get()};
  XML_SetUserData(parser.get(), &building);
  XML_SetElementHandler(parser.get(), on_start, on_end);
  XML_SetCharacterDataHandler(parser.get(), on_text);
  XML_SetEntityDeclHandler(parser.get(), on_entity);
  const auto status = XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), 1);
  if (!building.problem.empty()) refuse_file(name, building.problem_line, building.problem);
  if (status != XML_STATUS_OK)
    refuse_file(
        name, building.line(),
        fmt::format("not well-formed XML: {}", XML_ErrorString(XML_GetErrorCode(parser.get()))));
  return std::move(building.root);
}

}  // namespace weft::topology
