# Reports every include that points up the house, and every header of a C library that is included
# outside its seam. Files are named relative to the repository root.

BEGIN {
  split("base topology p2p runtime pslib bindings mpirun_examples benchmarks tests", rooms, " ")
  for (i in rooms) height[rooms[i]] = i + 0
  # Nobody but these may include what stands beside or above them; tests may include everything.
  height["mpirun_examples"] = height["benchmarks"] = height["bindings"]
  seam["pmix.h"] = "runtime/bootstrap/"
  seam["expat.h"] = "topology/import/"
  seam["infiniband/verbs.h"] = "p2p/verbs/api/"
  seam["mpi.h"] = "benchmarks/peers/"
}

FNR == 1 {
  split(FILENAME, parts, "/")
  room = parts[1]
}

/^[ \t]*#[ \t]*include[ \t]*["<]/ {
  header = $0
  sub(/^[^"<]*["<]/, "", header)
  sub(/[">].*/, "", header)
  split(header, parts, "/")
  target = parts[1]
  if (room == "include" && (target in height)) bad("the public headers include only weft/ and the standard library")
  if ((room in height) && (target in height) && target != room && height[target] >= height[room])
    bad(room " stands below or beside " target)
  # The peers of the benchmarks are programs of their own: each to what it likes.
  if (header in seam && index(FILENAME, seam[header]) != 1 && index(FILENAME, "benchmarks/peers/") != 1)
    bad("<" header "> is reached through " seam[header] " alone")
}

function bad(why) {
  printf "%s:%d: includes \"%s\": %s\n", FILENAME, FNR, header, why
  broken = 1
}

END { exit broken }
