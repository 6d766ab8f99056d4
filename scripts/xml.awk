# Functions that read one line of XML. Used by junit.awk and programs.awk.

function unescape(text) {
  gsub(/&lt;/, "<", text)
  gsub(/&gt;/, ">", text)
  gsub(/&quot;/, "\"", text)
  gsub(/&apos;/, "'", text)
  gsub(/&amp;/, "\\&", text)
  return text
}

function attribute(line, key,    rest) {
  if (!match(line, " " key "=\"")) return ""
  rest = substr(line, RSTART + RLENGTH)
  return unescape(substr(rest, 1, index(rest, "\"") - 1))
}
