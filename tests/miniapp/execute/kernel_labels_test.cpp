// SPDX-License-Identifier: Apache-2.0
// Rules, by Kokkos Tools' callbacks: every kernel of a step has a ShardMark label and runs on the
// instance that was passed in; at least 95 % of the compute time outside matrix products is spent
// in such kernels.
#include <cstring>
#include <set>

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <core/clock.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::kernel_labels_test {
namespace {

struct Listener {
  bool on = false;
  int open = 0;
  std::int64_t start_ns = 0, kernel_ns = 0, kernels = 0;
  std::set<std::string> foreign_labels;
  std::set<std::uint32_t> devices;

  void begin(const char* label, std::uint32_t device) {
    if (!on) return;
    if (std::strncmp(label, "shardmark::", 11) != 0) foreign_labels.insert(label);
    devices.insert(device);
    ++kernels;
    if (open++ == 0) start_ns = monotonic_ns();
  }
  void end() {
    if (on && --open == 0) kernel_ns += monotonic_ns() - start_ns;
  }
};
Listener listener;

void on_begin(const char* label, const std::uint32_t device, std::uint64_t*) {
  listener.begin(label, device);
}
void on_end(const std::uint64_t) {
  listener.end();
}

// Measures the time that the executor spends in the model.
class TimedModel : public Model {
 public:
  TimedModel(std::unique_ptr<Model> inner, std::int64_t& ns) : inner_(std::move(inner)), ns_(ns) {}
  void run(const Program& program, const Event& event, std::span<const Bound> operands,
           const StepValues& values) override {
    const std::int64_t start_ns = monotonic_ns();
    inner_->run(program, event, operands, values);
    // Loading tokens on the host is not compute.
    if (event.kernel != Kernel::load_batch) ns_ += monotonic_ns() - start_ns;
  }

 private:
  std::unique_ptr<Model> inner_;
  std::int64_t& ns_;
};

TEST(Kernels, HoldTheComputeTimeAndCarryOurLabels) {
  namespace tools = Kokkos::Tools::Experimental;
  tools::set_begin_parallel_for_callback(on_begin);
  tools::set_end_parallel_for_callback(on_end);
  tools::set_begin_parallel_reduce_callback(on_begin);
  tools::set_end_parallel_reduce_callback(on_end);
  tools::set_begin_parallel_scan_callback(on_begin);
  tools::set_end_parallel_scan_callback(on_end);

  Deck deck = small_deck(3, 4);
  deck.model.hidden = 384;
  deck.model.heads = 6;
  deck.model.sequence = 256;
  deck.model.vocab = 1024;
  std::int64_t compute_ns = 0;
  Training t(deck, MPI_COMM_WORLD, {}, [&](std::unique_ptr<Model> model) {
    return std::make_unique<TimedModel>(std::move(model), compute_ns);
  });
  t.init();
  t.bare_step();  // matrix products are prepared at their first use
  compute_ns = 0;
  t.executor().reset_times();
  const std::int64_t matmul_before_ns = t.matmul().matmul_ns();
  listener.on = true;
  for (int s = 0; s < 5; ++s) t.bare_step();
  listener.on = false;
  const std::int64_t matmul_ns = t.matmul().matmul_ns() - matmul_before_ns;

  tools::set_begin_parallel_for_callback(nullptr);
  tools::set_end_parallel_for_callback(nullptr);
  tools::set_begin_parallel_reduce_callback(nullptr);
  tools::set_end_parallel_reduce_callback(nullptr);
  tools::set_begin_parallel_scan_callback(nullptr);
  tools::set_end_parallel_scan_callback(nullptr);

  EXPECT_EQ(listener.foreign_labels, std::set<std::string>{});
  EXPECT_EQ(listener.devices.size(), 1U) << "kernels ran on more than one instance";
  EXPECT_GT(listener.kernels, 100);
  const auto outside = static_cast<double>(compute_ns - matmul_ns);
  const auto inside = static_cast<double>(listener.kernel_ns);
  RecordProperty("inside_over_outside", std::to_string(inside / outside));
  EXPECT_GE(inside, 0.95 * outside) << inside / outside;
}

}  // namespace
}  // namespace shardmark::test::kernel_labels_test
