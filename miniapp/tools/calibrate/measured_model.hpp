// SPDX-License-Identifier: Apache-2.0
// A model whose events are timed kernel by kernel: each launch is matched with the work that the
// plan's event has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <core/nn/products/matmul.hpp>
#include <core/plan/work/work.hpp>
#include <miniapp/models/event_model.hpp>
#include <miniapp/tools/calibrate/kernel_listener.hpp>

namespace shardmark {

/// What an event launched, in parts that the work of the event names.
struct MeasuredEvent {
  struct TimedProduct {
    Product product;
    double seconds;
  };
  struct TimedStream {
    Stream stream;
    double seconds;
  };
  std::vector<TimedProduct> products;
  std::vector<TimedStream> streams;
  std::vector<std::string> unexpected;  // kernels that the work does not list
  std::size_t missing = 0;              // launches that the work lists and that were not heard
  double seconds = 0;                   // all of it
};

/// Matches launches with `work`: kernels by label, in turn where the work lists a label several
/// times; kernels inside products are left out.
MeasuredEvent match(const Work& work, const std::vector<HeardKernel>& kernels,
                    std::span<const MatMulShape> shapes, std::span<const std::int64_t> shapes_ns);

class MeasuredModel : public Model {
 public:
  using Report = std::function<void(const Event&, const MeasuredEvent&)>;

  /// While `on` is false, events just run. `matmul` is the one that `inner` uses, set before `on`
  /// is; both must outlive the model. `before` is called before each event that is timed.
  MeasuredModel(std::unique_ptr<Model> inner, MatMul* const& matmul, const bool& on, Report report,
                std::function<void(const Event&)> before = {})
      : inner_(std::move(inner)),
        matmul_(matmul),
        on_(on),
        report_(std::move(report)),
        before_(std::move(before)) {}
  void run(const Program& program, const Event& event, std::span<const Bound> operands,
           const StepValues& values) override;
  /// How long timing itself has taken until now, apart from what was timed.
  double overhead_s() const { return static_cast<double>(overhead_ns_) * 1e-9; }

 private:
  void run_timed(const Program& program, const Event& event, std::span<const Bound> operands,
                 const StepValues& values);

  std::unique_ptr<Model> inner_;
  MatMul* const& matmul_;
  const bool& on_;
  Report report_;
  std::function<void(const Event&)> before_;
  KernelListener listener_;
  std::int64_t overhead_ns_ = 0;
};

}  // namespace shardmark
