// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/work/step_work.hpp>

namespace shardmark {

EnumArray<Phase, PhaseWork> steady_work(const Program& program, const WorkOptions& options) {
  EnumArray<Phase, PhaseWork> sums{};
  const Step& step = program.steps[static_cast<std::size_t>(step_path(program, false).back())];
  for (const SegmentRun& run : runs_of(step, false))
    for (const int segment : run.segments)
      for (const Event& e : program.segments[static_cast<std::size_t>(segment)].events) {
        const Work work = work_of(program, e, options);
        const auto times = static_cast<double>(run.times);
        sums[e.phase].flops += work.flops() * times;
        sums[e.phase].streamed_bytes += work.streamed_bytes() * times;
        sums[e.phase].launches += work.launches() * times;
      }
  return sums;
}

double model_flops_per_token(const ModelShape& model) {
  if (!traits(model.spec.family).has_arithmetic) return 0;
  const MoeSpec& moe = decoder_of(model.spec)->moe;
  constexpr double frozen = 2.0 / 3;  // no gradient of the weight
  ModelSpec whole = model.spec;
  whole.part = {};
  double weights = 0;
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    // A tied head uses the weights of the embeddings.
    const Role role = model.modules[m].role;
    if (!is_linear(role) && role != Role::experts) continue;
    const bool experts = role == Role::experts;
    const std::size_t dimensions = experts ? 3 : 2;  // of weights
    for (const int p : model.params_of(static_cast<int>(m))) {
      const Param& param = model.params[static_cast<std::size_t>(p)];
      if (param.shape.size() < dimensions) continue;
      // A token uses some of the experts only, as many as if this rank had all of them, and of a
      // divided layer the parts of all ranks.
      const double used =
          experts ? static_cast<double>(moe.per_token) / static_cast<double>(param.shape[0]) : 1;
      auto elems = static_cast<double>(param.elems);
      if (!experts && param.slice.cuts()) {
        const Width all = width_of(whole, role);
        elems = static_cast<double>(all.out) * static_cast<double>(all.in);
      }
      weights += used * (param.trained() ? 1 : frozen) * elems;
    }
  }
  const ModelSpec& s = model.spec;
  return 6 * weights + 12 * static_cast<double>(s.layers) * static_cast<double>(s.hidden) *
                           static_cast<double>(s.sequence);
}

}  // namespace shardmark
