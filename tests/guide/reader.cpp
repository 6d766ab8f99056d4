// [reader]
#include <cstdio>
#include <weft/pslib.hpp>

int main() try {  // no rank: started by hand, whenever you like
  weft::pslib::Reader reader = weft::pslib::Reader::join("policy");
  for (;;) {
    const weft::Status pulled = reader.pull_newer();
    if (pulled.code() == weft::Code::peer_left) break;  // the job has ended in order
    pulled.or_throw();
    std::printf("step %lu: w is %g\n", reader.step(), reader.tensor("w").as<float>()[2]);
  }
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
// [end]
