// The target and the times of fig9's trainings.
#include "benchmarks/convergence/curves.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft::bench {
namespace {

/// Losses that fall from 4 in steps of 0.1, and seconds of `each` step.
Course course_of(int steps, double each) {
  Course course;
  for (int step = 0; step < steps; ++step) {
    course.losses.push_back(4.0 - 0.1 * step);
    course.seconds.push_back(each * (step + 1));
  }
  return course;
}

TEST(Curves, TheTargetCountsForTheMeanOfTheLastSteps) {
  Subject subject = subject_of("embedder");
  subject.target = 2.0;
  const std::vector<double> losses = course_of(60, 1).losses;
  // The mean of 20 steps is that of the step 9.5 before the last.
  const auto reached = target_step(subject, losses);
  ASSERT_TRUE(reached.has_value());
  EXPECT_EQ(*reached, 30U);
  EXPECT_NEAR(recent(subject, losses, 30), 1.95, 1e-9);
}

TEST(Curves, ATargetIsNotReachedByAFewGoodSteps) {
  const Subject& subject = subject_of("embedder");
  EXPECT_FALSE(target_step(subject, std::vector<double>(5, 0.0)).has_value());
  EXPECT_FALSE(target_step(subject, std::vector<double>(50, subject.target + 0.1)).has_value());
}

TEST(Curves, ThePerplexityIsTheExponentialOfTheLoss) {
  EXPECT_NEAR(measured(subject_of("translator"), std::log(20.0)), 20.0, 1e-9);
  EXPECT_EQ(measured(subject_of("images"), 0.5), 0.5);
}

TEST(Curves, LossesAreTheSameOnlyBitByBit) {
  Experiment experiment{&subject_of("embedder"), 30, {}};
  experiment.ways = {{kBySlots, "shm", {course_of(30, 1), course_of(30, 2)}},
                     {kByRpcEdges, "shm", {course_of(30, 3)}}};
  EXPECT_TRUE(same_losses(experiment));
  double& last = experiment.ways[1].runs[0].losses.back();
  last = std::nextafter(last, std::numeric_limits<double>::infinity());
  EXPECT_FALSE(same_losses(experiment));
}

TEST(Curves, TimesAreThoseOfTheTargetOrOfTheEnd) {
  Subject subject = subject_of("embedder");
  subject.target = 2.0;
  Experiment experiment{&subject, 60, {}};
  experiment.ways = {
      {kBySlots, "shm", {course_of(60, 1), course_of(60, 1), course_of(60, 2)}},
      {kByGrpc, "Unix socket", {course_of(60, 3), course_of(60, 3), course_of(60, 4)}}};
  auto all = timings(experiment);
  EXPECT_EQ(all[0].of_runs, (std::vector<double>{31, 31, 62}));
  EXPECT_EQ(all[0].median, 31);
  EXPECT_EQ(all[0].over_best, 1);
  EXPECT_EQ(all[1].median, 93);
  EXPECT_EQ(all[1].over_best, 3);
  subject.target = -10;
  all = timings(experiment);
  EXPECT_EQ(all[1].median, 180);
}

TEST(Curves, AnUnknownExampleListsAll) {
  try {
    (void)subject_of("nope");
    FAIL();
  } catch (const std::out_of_range& error) {
    EXPECT_EQ(std::string(error.what()),
              "no example 'nope'; there are translator, images, embedder");
  }
}

TEST(Courses, AreFoundInARunsOutput) {
  const Course made = course_of(3, 0.1);
  const Course found = course_in("a line\n" + to_line(made) + "\n");
  EXPECT_EQ(found.losses, made.losses);
  EXPECT_EQ(found.seconds, made.seconds);
  EXPECT_THROW((void)course_in("nothing\n"), std::runtime_error);
}

}  // namespace
}  // namespace weft::bench
