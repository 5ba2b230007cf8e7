// SPDX-License-Identifier: Apache-2.0
#include <core/clock.hpp>
#include <core/kokkos_shim.hpp>
#include <miniapp/tools/calibrate/measured_model.hpp>

namespace shardmark {
namespace {

double seconds_of(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

// Kernels with which products of 16-bit matrices widen and round their pieces.
bool belongs_to_product(const std::string& label) {
  return label == "widen" || label == "round";
}

}  // namespace

MeasuredEvent match(const Work& work, const std::vector<HeardKernel>& kernels,
                    std::span<const MatMulShape> shapes, std::span<const std::int64_t> shapes_ns) {
  MeasuredEvent found;
  double products = 0;
  for (const Product& p : work.products) products += static_cast<double>(p.count);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const MatMulShape& s = shapes[i];
    found.products.push_back({{.m = s.m,
                               .n = s.n,
                               .k = s.k,
                               .batch = s.batch,
                               .transpose_a = s.transpose_a,
                               .transpose_b = s.transpose_b,
                               .accumulate = s.accumulate,
                               .type = s.type,
                               .c_type = s.c_type},
                              seconds_of(shapes_ns[i])});
  }
  if (products > static_cast<double>(shapes.size()))
    found.missing += static_cast<std::size_t>(products) - shapes.size();

  std::map<std::string_view, std::vector<const Stream*>> by_label;
  std::map<std::string_view, std::size_t> turns;
  double launches = 0, heard = 0;
  for (const Stream& s : work.streams) {
    by_label[s.kernel].push_back(&s);
    launches += s.launches;
  }
  for (const HeardKernel& k : kernels) {
    if (belongs_to_product(k.label)) continue;
    const auto it = by_label.find(k.label);
    if (it == by_label.end()) {
      found.unexpected.push_back(k.label);
      continue;
    }
    const std::size_t turn = turns[it->first]++;
    found.streams.push_back({*it->second[turn % it->second.size()], seconds_of(k.ns)});
    ++heard;
  }
  if (launches > heard) found.missing += static_cast<std::size_t>(launches - heard);
  return found;
}

void MeasuredModel::run(const Program& program, const Event& event, std::span<const Bound> operands,
                        const StepValues& values) {
  if (!on_) return inner_->run(program, event, operands, values);
  overhead_ns_ -= monotonic_ns();
  run_timed(program, event, operands, values);
  overhead_ns_ += monotonic_ns();
}

void MeasuredModel::run_timed(const Program& program, const Event& event,
                              std::span<const Bound> operands, const StepValues& values) {
  if (before_) before_(event);
  matmul_->clear_recorded();
  matmul_->record(true);
  listener_.begin();
  const std::int64_t start_ns = monotonic_ns();
  inner_->run(program, event, operands, values);
  const std::int64_t ns = monotonic_ns() - start_ns;
  overhead_ns_ -= ns;
  const double seconds = seconds_of(ns);
  const auto& kernels = listener_.end();
  matmul_->record(false);
  const Work work = work_of(program, event, {device_is_host});
  MeasuredEvent measured = match(work, kernels, matmul_->recorded(), matmul_->recorded_ns());
  measured.seconds = seconds;
  // Loading tokens is no kernel.
  if (event.kernel == Kernel::load_batch && work.streams.size() == 1) {
    measured.streams.assign(1, {work.streams[0], seconds});
    measured.missing = 0;
  }
  report_(event, measured);
}

}  // namespace shardmark
