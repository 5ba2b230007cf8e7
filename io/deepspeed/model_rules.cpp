// SPDX-License-Identifier: Apache-2.0
// Keys whose effect depends on the sizes of the model: whether they divide anything of it.
#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/model/module_granularity.hpp>
#include <core/plan/partition/sub_groups.hpp>
#include <core/text.hpp>
#include <io/deepspeed/sections.hpp>

namespace shardmark {
namespace {

// Modules below the threshold are gathered whole, which is not modelled. A threshold below all
// modules marks none of them.
void judge_granularity(DsConfig& c, const Origin& origin, const ModelShape& model) {
  const std::string name = "module_granularity_threshold";
  const auto threshold = c.zero.at(name).get<std::int64_t>();
  if (threshold <= 0) return;
  const std::int64_t smallest = smallest_granularity(model);
  if (threshold < smallest)
    return c.zero.mute(name, fmt::format("the smallest granularity of this model's modules is {}, "
                                         "so it marks no module",
                                         smallest));
  origin.not_modelled(c.zero.key(name), threshold,
                      fmt::format("the smallest granularity of this model's modules is {}, and "
                                  "modules up to the threshold are gathered whole: remove the key, "
                                  "or set it below",
                                  smallest));
}

// DeepSpeed keeps the first int((1 - ratio) x n) of n sub-groups on the device.
struct Split {
  std::int64_t groups = 0, on_device = 0;
};

Split split_of(const DsConfig& c, const ModelShape& model, int world) {
  const auto size = c.zero.at("sub_group_size").get<std::int64_t>();
  const auto groups = static_cast<std::int64_t>(SubGroups(model, size, world).groups().size());
  const double part = 1 - c.offload_optimizer.number("ratio");
  return {groups, static_cast<std::int64_t>(part * static_cast<double>(groups))};
}

// More ranks have fewer sub-groups each, so a ratio without effect stays so on more ranks.
void judge_ratio(DsConfig& c, Origin& origin, const ModelShape& model, std::optional<int> world) {
  constexpr int most_tried = 4096;
  const Json ratio = c.offload_optimizer.at("ratio");
  if (!offloads_optimizer(c) || ratio >= 1) return;
  const auto why = [&](const Split& split, const std::string& where) {
    return fmt::format(
        "{} a rank has {} of {} = {}, and DeepSpeed keeps int((1 - ratio) x {}) = 0 "
        "of them on the device: all states are offloaded",
        where, plural(split.groups, "sub-group"), c.zero.key("sub_group_size"),
        brief(c.zero.at("sub_group_size")), split.groups);
  };
  const int first = world.value_or(1);
  const std::string here = world ? "on " + plural(first, "rank") : "on any number of ranks";
  if (const Split split = split_of(c, model, first); split.on_device == 0)
    return c.offload_optimizer.mute("ratio", why(split, here));
  if (world) return;
  for (int ranks = 2; ranks <= most_tried; ranks *= 2)
    if (const Split split = split_of(c, model, ranks); split.on_device == 0)
      return origin.note(FindingKind::warning, c.offload_optimizer.key("ratio"),
                         fmt::format("{}: {}", brief(ratio),
                                     why(split, fmt::format("on {} or more ranks", ranks))));
}

}  // namespace

void judge_with_model(DsConfig& c, Origin& origin, const DsModel& given) {
  if (given.spec == nullptr || c.stage != 3) return;
  ModelSpec spec = *given.spec;
  const bool fits = spec.fit.has_value();  // its layers are chosen later, and all are alike
  if (fits) spec.layers = 1;
  ModelShape model;
  try {
    model = build_model_shape(spec);
  } catch (const Error&) {
    return;  // the reader of the deck reports it
  }
  judge_granularity(c, origin, model);
  if (!fits) judge_ratio(c, origin, model, given.world);
}

}  // namespace shardmark
