#include "training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "batches.hpp"
#include "lstm.hpp"
#include "model.hpp"
#include "progress.hpp"
#include "publishing.hpp"
#include "rank_gather.hpp"
#include "sample.hpp"
#include "transfer_report.hpp"
#include "weft/pslib.hpp"

namespace charlm {
namespace {

// The first steps attach and map memory; costs are counted after them.
constexpr int kSettlingSteps = 10;
// The final loss is a mean over this many steps, since single batches vary.
constexpr int kFinalSteps = 20;
// A default run has learned if its final loss is below this share of the unigram entropy.
constexpr double kLearnedShare = 0.8;

weft::pslib::TableOptions table_options(const Options& options) {
  weft::pslib::TableOptions table(weft::pslib::Optimizer::adam(options.learning_rate));
  if (options.compress == "int8") table.compression = weft::pslib::Compression::int8();
  if (options.compress == "top_k") table.compression = weft::pslib::Compression::top_k(0.05F);
  return table;
}

std::ofstream open_output(const std::string& file) {
  std::ofstream out;
  if (file.empty()) return out;
  errno = 0;
  out.open(file);
  if (!out)
    throw UsageError(fmt::format("{}: cannot be written: {}; choose another path", file,
                                 std::error_code(errno, std::generic_category()).message()));
  return out;
}

class Job {
 public:
  Job(weft::World& world, const Options& options, const Text& text)
      : world_(world),
        options_(options),
        text_(text),
        steps_(options.steps_in_force()),
        workers_(options.workers_among(world.size())),
        batch_(options.batch_for(workers_)),
        entropy_(text.unigram_entropy()),
        // Rank 0 prints and writes files; it opens them before the job's work begins.
        losses_file_(open_output(is_first() ? options.losses : "")),
        json_file_(open_output(is_first() ? options.json : "")),
        sizes_{static_cast<int>(text.vocabulary.size()), options.embed, options.hidden},
        batches_(text.tokens, options.length, batch_, world.rank(), workers_, options.seed),
        lstm_(make_lstm(sizes_, batches_.sequences(), options.length)),
        server_(world, {.dedicated_servers = options.servers}),
        table_(server_.table("charlm", tensor_specs(sizes_), table_options(options))),
        parameters_(server_.works() ? bind_parameters(table_) : LstmTensors<float>{}),
        gradients_(server_.works() ? bind_gradients(table_) : LstmTensors<float>{}) {
    if (!server_.works()) return;
    losses_.emplace(world, "charlm.loss", workers_, 1);
    costs_.emplace(world, "charlm.cost", workers_, kCounterCount);
    publishing_.emplace(world, options, table_);
  }

  int run() {
    if (!server_.works()) {
      weft::pslib::Table* const tables[] = {&table_};
      server_.serve(tables).or_throw();
      return kLearned;
    }
    if (is_first()) print_header();
    initialize(sizes_, options_.seed, parameters_);
    table_.initialize().or_throw();

    Progress progress(steps_, std::int64_t{batch_} * options_.length);
    const int settled = std::min(kSettlingSteps, steps_ / 2);
    weft::Report before = world_.report();
    double final_sum = 0.0;
    const int final_steps = std::min(kFinalSteps, steps_);
    for (int step = 1; step <= steps_; ++step) {
      const double loss = train_step(step);
      publishing_->step(step, steps_);
      if (is_first()) {
        progress.step(step, loss);
        if (losses_file_.is_open()) losses_file_ << fmt::format("{} {:a}\n", step, loss);
        if (step > steps_ - final_steps) final_sum += loss;
      }
      if (step == settled) before = world_.report();
    }
    const double seconds = progress.seconds();
    const SteadyState steady = steady_state(before, world_.report(), steps_ - settled);
    costs_->put(to_values(steady.total())).or_throw();
    publishing_->finish();
    if (!is_first()) return kLearned;
    return finish(steady, final_sum / final_steps, seconds);
  }

 private:
  bool is_first() const noexcept { return world_.rank() == 0; }

  // Returns the step's loss over the global batch on rank 0, over this rank's part elsewhere.
  double train_step(int step) {
    batches_.fill(static_cast<std::uint64_t>(step), part_);
    const double own = lstm_->train(parameters_, gradients_, part_.inputs, part_.targets);
    losses_->put({&own, 1}).or_throw();
    table_.push_pull().or_throw();
    if (!is_first()) return own;
    // Added in rank order, so that two runs of the same ranks print the same digits.
    const std::span<const double> parts = losses_->collect().value();
    double sum = 0.0;
    for (const double part : parts) sum += part;
    return sum / workers_;
  }

  std::size_t parameter_count() const {
    std::int64_t count = 0;
    for (const auto& spec : table_.specs()) count += spec.shape.elements();
    return static_cast<std::size_t>(count);
  }

  void print_header() const {
    const std::string roles = options_.servers == 0 ? "each a worker and a server shard"
                                                    : fmt::format("{} of them training, {} serving",
                                                                  workers_, options_.servers);
    fmt::print("train_charlm: {} rank{} on {}, {}\n", world_.size(), world_.size() == 1 ? "" : "s",
               world_.local_size() == world_.size() ? world_.host(0) : "several hosts", roles);
    fmt::print("  text     {}: {} characters, {} different\n", text_.file, text_.tokens.size(),
               text_.vocabulary.size());
    fmt::print("  model    LSTM, embedding {}, hidden {}: {} parameters ({})\n", sizes_.embed,
               sizes_.hidden, parameter_count(), lstm_->instructions());
    fmt::print("  step     {} windows of {} characters, {} per rank; Adam, learning rate {}\n",
               batch_, options_.length, batches_.sequences(), options_.learning_rate);
    fmt::print("  unigram  {:.4f} nats per character: the loss to get well below\n\n", entropy_);
    std::fflush(stdout);
  }

  int finish(const SteadyState& steady, double loss, double seconds) {
    if (options_.sample > 0)
      fmt::print("\nsample\n------\n{}\n------\n",
                 sample(*lstm_, parameters_, text_, options_.sample, options_.seed));
    const std::span<const double> costs = costs_->collect().value();
    std::vector<weft::TransferCounters> ranks;
    for (std::size_t at = 0; at < costs.size(); at += kCounterCount)
      ranks.push_back(from_values(costs.subspan(at, kCounterCount)));
    fmt::print("\n{}\n{}", transfer_report(steady, world_.rank()), job_line(ranks, steady.steps));

    const double share = loss / entropy_;
    // The loss is not judged if the user chose the number of steps.
    const bool learned = options_.steps || share < kLearnedShare;
    fmt::print("\nloss {:.4f} nats per character, {:.0f} % of the unigram entropy {:.4f}{}\n", loss,
               100 * share, entropy_, learned ? "" : ": not learned");
    if (json_file_.is_open()) {
      const double characters = static_cast<double>(steps_) * batch_ * options_.length;
      json_file_ << nlohmann::json{{"ranks", world_.size()},
                                   {"steps", steps_},
                                   {"seconds", seconds},
                                   {"seconds_per_step", seconds / steps_},
                                   {"characters_per_second", characters / seconds},
                                   {"loss", loss},
                                   {"unigram_entropy", entropy_},
                                   {"transfers", transfer_json(steady, ranks)}}
                        .dump(2)
                 << '\n';
    }
    return learned ? kLearned : kDidNotLearn;
  }

  weft::World& world_;
  const Options& options_;
  const Text& text_;
  int steps_;
  int workers_;
  int batch_;
  double entropy_;
  std::ofstream losses_file_;
  std::ofstream json_file_;
  LstmSizes sizes_;
  Batches batches_;
  Batch part_;
  std::unique_ptr<Lstm> lstm_;
  weft::pslib::ParameterServer server_;
  weft::pslib::Table table_;
  LstmTensors<float> parameters_;
  LstmTensors<float> gradients_;
  // On workers only.
  std::optional<RankGather> losses_;
  std::optional<RankGather> costs_;
  std::optional<Publishing> publishing_;
};

}  // namespace

int train(weft::World& world, const Options& options, const Text& text) {
  Job job(world, options, text);
  const int exit_code = job.run();
  // Leave before the table is destroyed: other ranks may be reading this rank's shard.
  world.leave().or_throw();
  return exit_code;
}

}  // namespace charlm
