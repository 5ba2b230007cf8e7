// SPDX-License-Identifier: Apache-2.0
// Combinations of keys that DeepSpeed 0.19.8 refused when it was run with them, and keys whose
// effect depends on the sizes of the model: whether they divide anything of it.
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deepspeed/stage3/leaf_modules.hpp>
#include <core/plan/partition/sub_groups.hpp>
#include <core/text.hpp>
#include <io/deepspeed/config.hpp>
#include <io/deepspeed/sections.hpp>

namespace shardmark {

namespace {

// A threshold below all modules marks none of them.
void judge_granularity(DsConfig& c, const ModelShape& model) {
  const Member& name = in<&ZeroKnobs::leaves, &LeafModules::granularity>;
  const auto threshold = c.zero.at(name).get<std::int64_t>();
  if (threshold <= 0) return;
  const std::int64_t smallest = std::ranges::min(granularities(model));
  if (threshold < smallest)
    c.zero.mute(name, fmt::format("the smallest granularity of this model's modules is {}, so it "
                                  "marks no module",
                                  smallest));
}

constexpr const char* sub_group_size = "sub_group_size";

// DeepSpeed keeps the first int((1 - ratio) x n) of n sub-groups on the device.
struct Split {
  std::int64_t groups = 0, on_device = 0;
};

Split split_of(const DsConfig& c, const ModelShape& model, int world) {
  const auto size = c.zero.at(sub_group_size).get<std::int64_t>();
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
        where, plural(split.groups, "sub-group"), c.zero.key(sub_group_size),
        brief(c.zero.at(sub_group_size)), split.groups);
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
  judge_granularity(c, model);
  if (!fits) judge_ratio(c, origin, model, given.world);
}

namespace {

void check_precision(const DsConfig& c, const Origin& origin) {
  if (c.fp16.flag("enabled") && c.bf16.flag("enabled"))
    origin.refuse(c.bf16.key("enabled"), true,
                  fmt::format("{} is true as well: enable one of them", c.fp16.key("enabled")));
  // DeepSpeed checks the keys of the dynamic loss scale only if the loss scale is dynamic.
  if (!c.fp16.flag("enabled") || c.fp16.number("loss_scale") != 0) return;
  for (const char* name : {"loss_scale_window", "min_loss_scale"})
    if (c.fp16.number(name) <= 0)
      origin.refuse(c.fp16.key(name), c.fp16.at(name),
                    "must be an integer, at least 1, while the loss scale is dynamic");
}

// A master in bf16 takes the optimizer's states along, unless DeepSpeed's own Adam runs on the
// host.
void check_bf16_master(const DsConfig& c, const Origin& origin) {
  const bool master = c.bf16.flag("bf16_master_weights_and_grads");
  const bool states = c.bf16.flag("bf16_optimizer_states");
  const std::string master_key = c.bf16.key("bf16_master_weights_and_grads");
  if (c.stage == 0 && (master || states))
    origin.refuse(c.bf16.key(master ? "bf16_master_weights_and_grads" : "bf16_optimizer_states"),
                  true, "needs stage 1, 2 or 3: remove the key");
  if (states && !master)
    origin.refuse(c.bf16.key("bf16_optimizer_states"), true,
                  fmt::format("needs {}: set it to true", master_key));
  if (!master || !c.bf16.flag("enabled") || uses_bf16_optimizer(c)) return;
  if (offloads_optimizer(c) && uses_muon(c))
    origin.refuse(master_key, true,
                  "beside offload_optimizer DeepSpeed needs its own Adam for the host: remove the "
                  "key, or use another optimizer than \"Muon\"");
  if (offloads_optimizer(c))
    origin.not_modelled(master_key, true, "a bf16 master beside offload_optimizer: remove one");
  if (!states)
    origin.refuse(
        master_key, true,
        fmt::format("without offload_optimizer DeepSpeed needs {} as well: set it to true",
                    c.bf16.key("bf16_optimizer_states")));
}

// Without managed accumulation, what is offloaded comes back for the step. That was not recorded.
void check_unmanaged(const DsConfig& c, const Origin& origin) {
  if (!c.top.flag("managed_gradient_accumulation") && offloads_optimizer(c))
    origin.not_modelled(c.top.key("managed_gradient_accumulation"), false,
                        "beside offload_optimizer: remove one of the two");
}

void check_offload(const DsConfig& c, const Origin& origin) {
  for (const auto& [old_key, key] : {std::pair{"cpu_offload", "offload_optimizer"},
                                     std::pair{"cpu_offload_param", "offload_param"}})
    if (c.zero.given(old_key) && !c.zero.at(old_key).is_null() && c.zero.given(key))
      origin.refuse(c.zero.key(old_key), c.zero.at(old_key),
                    fmt::format("is deprecated and may not stand beside \"{}\": remove it", key));
  if (c.stage != 3 && c.offload_optimizer.number("ratio") < 1)
    origin.refuse(c.offload_optimizer.key("ratio"), c.offload_optimizer.at("ratio"),
                  "partial offload needs stage 3: use 1.0");
  for (const DsValues* offload : {&c.offload_optimizer, &c.offload_param})
    if (c.stage == 3 && offload->at("device") == "nvme" && !offload->at("nvme_path").is_string())
      origin.missing(offload->key("nvme_path"), "device \"nvme\" needs the folder to write to");
}

// Keys that change how gradients are scaled or summed.
void check_gradients(const DsConfig& c, const Origin& origin) {
  const bool scatters = c.zero.flag("reduce_scatter");
  const bool sums = c.top.at("gradient_allreduce_op") == "sum";
  if (scatters && (c.stage == 3 || (c.stage == 2 && !sums))) {
    const std::string why = fmt::format(
        "stage {} with reduce_scatter does not scale before it sums: remove the key", c.stage);
    if (c.top.number("gradient_predivide_factor") != 1)
      origin.refuse(c.top.key("gradient_predivide_factor"), c.top.at("gradient_predivide_factor"),
                    why);
    if (c.top.flag("prescale_gradients")) origin.refuse(c.top.key("prescale_gradients"), true, why);
  }
  if (c.stage == 3 && sums)
    origin.refuse(c.top.key("gradient_allreduce_op"), "sum",
                  "stage 3 can only average: use \"mean\"");
  if (c.stage < 2 && c.zero.flag("overlap_comm") && !c.top.flag("managed_gradient_accumulation"))
    origin.refuse(c.top.key("managed_gradient_accumulation"), false,
                  "overlap_comm needs it at stages 0 and 1: set it to true");
  if (c.stage == 3 && c.zero.flag("zero_quantized_gradients") && !scatters)
    origin.refuse(c.zero.key("zero_quantized_gradients"), true,
                  "needs reduce_scatter: set reduce_scatter to true");
  if (c.zero.given("compute_grad_norm") && !c.zero.flag("compute_grad_norm")) {
    if (c.stage != 1 && c.stage != 2)
      origin.refuse(
          c.zero.key("compute_grad_norm"), false,
          fmt::format("may be false only at stages 1 and 2, and this is stage {}: remove it",
                      c.stage));
    if (uses_bf16_optimizer(c))
      origin.refuse(
          c.zero.key("compute_grad_norm"), false,
          "stage 1 with bf16 and fp32 accumulation always computes the norm: remove the key");
    if (c.top.number("gradient_clipping") != 0)
      origin.refuse(c.zero.key("compute_grad_norm"), false,
                    fmt::format("clipping needs the norm: set gradient_clipping, now {}, to 0",
                                brief(c.top.at("gradient_clipping"))));
  }
}

// Values at which DeepSpeed fails in its first steps.
void check_divisors(const DsConfig& c, const Origin& origin) {
  const auto refuse = [&](const char* name) {
    origin.refuse(c.top.key(name), c.top.at(name), "DeepSpeed divides by it: must not be 0");
  };
  if (c.top.at("steps_per_print") == 0)
    refuse("steps_per_print");  // an error even if nothing is printed
  if (c.top.effective("gradient_predivide_factor") == 0) refuse("gradient_predivide_factor");
}

// Nulls and types that DeepSpeed's class does not take, whatever the section says besides.
void check_types(const DsConfig& c, const Origin& origin) {
  const std::string bf16 = c.top.key("bf16");
  if (c.top.given("bf16") && c.top.at("bf16").is_null() && bf16.ends_with("bfloat16"))
    origin.refuse(bf16, nullptr, "must be an object: only its newer name bf16 may be null");
  if (c.torch_autocast.given("dtype") && c.torch_autocast.at("dtype").is_null())
    origin.refuse(c.torch_autocast.key("dtype"), nullptr,
                  "must be the name of a type: give one, or remove the key");
  const Json vocabulary = c.top.at("vocabulary_size");
  const bool is_count = vocabulary.is_number() || vocabulary.is_boolean();
  if (!is_count && !vocabulary.is_null() && vocabulary != "" && !vocabulary.empty())
    origin.refuse(c.top.key("vocabulary_size"), vocabulary, "must be a number");
}

// A leaf module is gathered as a whole.
void check_leaf_module(const DsConfig& c, const Origin& origin) {
  for (const char* name : {"classes", "names", "name_suffixes"}) {
    const Json names = c.leaf_module.at(name);
    const auto is_text = [](const Json& v) { return v.is_string(); };
    if (!names.is_string() &&
        !(names.is_array() && std::all_of(names.begin(), names.end(), is_text)))
      origin.refuse(c.leaf_module.key(name), names, "must be a list of names");
  }
}

// Parts of ZeRO++ that change every value that they transfer.
void check_quantized(const DsConfig& c, const Origin& origin) {
  if (c.stage == 3 && c.zero.flag("zero_quantized_nontrainable_weights"))
    origin.not_modelled(c.zero.key("zero_quantized_nontrainable_weights"), true,
                        "the shards of frozen parameters are kept in the model's type, not as int8 "
                        "with scales: remove the key");
}

// A secondary copy stays on the device while its primary is on the host. This combination was not
// recorded, so it is refused.
void check_secondary(const DsConfig& c, const Origin& origin) {
  const Json& size = c.zero.at("zero_hpz_partition_size");
  if (c.stage == 3 && offloads_params(c) && size.get<std::int64_t>() > 1)
    origin.not_modelled(c.zero.key("zero_hpz_partition_size"), size,
                        "secondary copies beside offload_param: remove one of the two");
}

}  // namespace

void check_deepspeed_rules(const DsConfig& c, const Origin& origin) {
  check_types(c, origin);
  check_precision(c, origin);
  check_bf16_master(c, origin);
  check_unmanaged(c, origin);
  check_offload(c, origin);
  check_gradients(c, origin);
  check_divisors(c, origin);
  if (c.zero.flag("legacy_stage1"))
    origin.refuse(c.zero.key("legacy_stage1"), true, "DeepSpeed has removed it: remove the key");
  const Json bucket = c.zero.at("allgather_bucket_size");
  if ((c.stage == 1 || c.stage == 2) && bucket.get<std::int64_t>() % 2 != 0)
    origin.refuse(c.zero.key("allgather_bucket_size"), bucket, "must be even at stages 1 and 2");
  check_leaf_module(c, origin);
  check_quantized(c, origin);
  check_secondary(c, origin);
}

}  // namespace shardmark
