// SPDX-License-Identifier: Apache-2.0
// Which states are on the host. DeepSpeed looks at offload_optimizer from stage 1 on, and at
// offload_param at stage 3 only; its older keys cpu_offload and cpu_offload_param mean the same.
#include <io/deepspeed_sections.hpp>

namespace shardmark {
namespace {

bool asks(const DsConfig& c, const DsValues& section, std::string_view deprecated) {
  return section.at("device") != "none" || c.zero.flag(deprecated);
}

void mute_all(DsValues& section, std::string_view why) {
  for (const DsKey& key : section.section().keys)
    if (key.name != "device") section.mute(key.name, std::string(why));
}

}  // namespace

bool offloads_optimizer(const DsConfig& c) {
  return c.stage > 0 && asks(c, c.offload_optimizer, "cpu_offload");
}

bool offloads_params(const DsConfig& c) {
  return c.stage == 3 && asks(c, c.offload_param, "cpu_offload_param");
}

OffloadSpec offload_optimizer_spec(const DsConfig& c, Origin& origin) {
  OffloadSpec spec;
  spec.enabled = offloads_optimizer(c);
  if (!spec.enabled) return spec;
  const DsValues& o = c.offload_optimizer;
  if (o.at("device") == "nvme") {
    if (c.stage == 3) origin.not_modelled(o.key("device"), "nvme", "use \"cpu\"");
    origin.note(FindingKind::warning, o.key("device"),
                "\"nvme\" below stage 3: DeepSpeed keeps the states in the host's memory");
  }
  spec.pin_memory = o.flag("pin_memory");
  spec.ratio = c.stage == 3 ? o.number("ratio") : 1;
  return spec;
}

OffloadSpec offload_param_spec(const DsConfig& c, const Origin& origin) {
  OffloadSpec spec;
  spec.enabled = offloads_params(c);
  if (spec.enabled && c.offload_param.at("device") == "nvme")
    origin.not_modelled(c.offload_param.key("device"), "nvme", "use \"cpu\"");
  return spec;
}

void mute_beside_offload(DsConfig& c) {
  if (c.stage > 0 && !offloads_optimizer(c))
    mute_all(c.offload_optimizer, "the optimizer is not offloaded");
  if (!offloads_params(c)) mute_all(c.offload_param, "parameters are not offloaded");
  c.offload_param.mute("pin_memory", "DeepSpeed pins the parameters' buffer in any case");
  if (!offloads_optimizer(c) || c.stage == 3) return;
  c.zero.mute("contiguous_gradients", "offload_optimizer makes it true");
  if (c.stage == 2)
    c.data_types.mute("grad_accum_dtype",
                      "stage 2 accumulates in the model's type where the optimizer is offloaded");
}

}  // namespace shardmark
