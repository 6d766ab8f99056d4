// The network of image_graph as a lesson, with a layer as wide as that of CIFAR-10's model.
#pragma once

#include <memory>

#include "lessons/lesson.hpp"

namespace weft::bench {

/// Trains on images that it draws.
std::unique_ptr<lessons::Lesson> make_image_lesson();

}  // namespace weft::bench
