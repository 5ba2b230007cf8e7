// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <thread>
#include <utility>

#include <core/clock.hpp>
#include <miniapp/models/slowed_model.hpp>

namespace shardmark {

void SlowedModel::begin_step(const Slowness& slowness) {
  now_ = slowness;
  if (burner_ != nullptr) burner_->burn(slowness.memory);
}

void SlowedModel::run(const Program& program, const Event& event, std::span<const Bound> operands,
                      const StepValues& values) {
  if (now_.pause_ns > 0) {
    const std::int64_t start_ns = monotonic_ns();
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::exchange(now_.pause_ns, 0)));
    injected_ns_ += monotonic_ns() - start_ns;
  }
  if (now_.factor <= 1) return inner_->run(program, event, operands, values);
  context_.space.fence();  // on a device, earlier kernels must not count
  const std::int64_t start_ns = monotonic_ns();
  inner_->run(program, event, operands, values);
  context_.space.fence();
  const std::int64_t done_ns = monotonic_ns();
  const auto longer = static_cast<double>(done_ns - start_ns) * (now_.factor - 1);
  const std::int64_t until_ns = done_ns + static_cast<std::int64_t>(longer);
  context_.emulating = true;
  while (monotonic_ns() < until_ns) context_.progress();
  context_.emulating = false;
  injected_ns_ += monotonic_ns() - done_ns;
}

}  // namespace shardmark
