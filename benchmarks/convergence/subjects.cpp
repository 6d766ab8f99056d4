#include "benchmarks/convergence/subjects.hpp"

#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "benchmarks/convergence/image_lesson.hpp"
#include "sentence_embedder/lesson.hpp"
#include "translator/lesson.hpp"

namespace weft::bench {
namespace {

constexpr std::string_view kPerplexity = "perplexity";

std::unique_ptr<lessons::Lesson> translator() {
  return std::make_unique<translator::TranslatorLesson>(translator::translator_defaults());
}

std::unique_ptr<lessons::Lesson> embedder() {
  return std::make_unique<embedder::EmbedderLesson>(embedder::embedder_defaults());
}

constexpr std::array kSubjects{
    Subject{.name = "translator",
            .measure = kPerplexity,
            .target = 20.0,
            .steps = 250,
            .paper = "to perplexity 20 in 220 min by gRPC.TCP, 66 min by RDMA",
            .paper_gain = 220.0 / 66.0,
            .paper_over_rdma = "53 %",
            .make = translator},
    Subject{.name = "images",
            .measure = "loss",
            .target = 0.6,
            .steps = 250,
            .paper = "CIFAR 2.6 times as fast by RDMA as by gRPC.TCP",
            .paper_gain = 2.6,
            .paper_over_rdma = "18 %",
            .make = make_image_lesson},
    Subject{.name = "embedder",
            .measure = "loss",
            .target = 1.0,
            .steps = 200,
            .paper = "to loss 4.5 in 185 min by gRPC.TCP, 100 min by RDMA",
            .paper_gain = 185.0 / 100.0,
            .paper_over_rdma = "",
            .make = embedder}};

}  // namespace

std::span<const Subject> subjects() { return kSubjects; }

const Subject& subject_of(std::string_view name) {
  std::string all;
  for (const Subject& subject : kSubjects) {
    if (subject.name == name) return subject;
    all += (all.empty() ? "" : ", ") + std::string(subject.name);
  }
  throw std::out_of_range("no example '" + std::string(name) + "'; there are " + all);
}

double measured(const Subject& subject, double loss) {
  return subject.measure == kPerplexity ? std::exp(loss) : loss;
}

}  // namespace weft::bench
