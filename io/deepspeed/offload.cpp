// SPDX-License-Identifier: Apache-2.0
// Which states are on the host. DeepSpeed uses offload_optimizer from stage 1 on and offload_param
// at stage 3 only. Its older keys cpu_offload and cpu_offload_param mean the same.
#include <algorithm>

#include <io/deepspeed/sections.hpp>

namespace shardmark {
namespace {

bool asks(const DsConfig& c, const DsValues& section, std::string_view deprecated) {
  return section.at("device") != "none" || c.zero.flag(deprecated);
}

void mute_all(DsValues& section, std::string_view why) {
  for (const Key& key : section.section().keys)
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
  Deck deck;
  if (!offloads_optimizer(c)) return {};
  c.offload_optimizer.fill(deck);
  OffloadSpec& spec = deck.zero.offload_optimizer;
  spec.enabled = true;
  const DsValues& o = c.offload_optimizer;
  if (o.at("device") == "nvme") {
    spec.nvme = c.stage == 3;
    if (!spec.nvme)
      origin.note(FindingKind::warning, o.key("device"),
                  "\"nvme\" below stage 3: DeepSpeed keeps the states in the host's memory");
  }
  if (spec.nvme) spec.nvme_path = origin.resolve_output(o.at("nvme_path").get<std::string>());
  return spec;
}

OffloadSpec offload_param_spec(const DsConfig& c, const Origin& origin) {
  Deck deck;
  OffloadSpec& spec = deck.zero.offload_param;
  spec.enabled = offloads_params(c);
  const DsValues& o = c.offload_param;
  if (!spec.enabled || o.at("device") != "nvme") return spec;
  o.fill(deck);
  spec.nvme = true;
  spec.nvme_path = origin.resolve_output(o.at("nvme_path").get<std::string>());
  return spec;
}

AioSpec aio_spec(const DsConfig& c) {
  Deck deck;
  c.aio.fill(deck);
  AioSpec& aio = deck.zero.aio;
  aio.least_bytes = std::max(aio.least_bytes, aio.block_size);
  aio.alignment_bytes = 1024 * c.aio.effective("intra_op_parallelism").get<std::int64_t>();
  return aio;
}

void mute_beside_offload(DsConfig& c) {
  if (c.stage > 0 && !offloads_optimizer(c))
    mute_all(c.offload_optimizer, "the optimizer is not offloaded");
  if (!offloads_params(c)) mute_all(c.offload_param, "parameters are not offloaded");
  const auto in_files = [&](const DsValues& o, bool offloads) {
    return c.stage == 3 && offloads && o.at("device") == "nvme";
  };
  const bool states = in_files(c.offload_optimizer, offloads_optimizer(c));
  const bool params = in_files(c.offload_param, offloads_params(c));
  const char* other = "the device is not \"nvme\"";
  if (!states || !uses_muon(c))
    c.zero.mute("save_muon_momentum_buffer_in_memory", "Muon has no states in files");
  if (!states)
    for (const char* key : {"nvme_path", "buffer_count", "pipeline_read", "pipeline_write"})
      c.offload_optimizer.mute(key, other);
  if (!params) {
    for (const char* key : {"nvme_path", "buffer_count", "buffer_size", "max_in_cpu"})
      c.offload_param.mute(key, other);
    c.offload_param.mute("pin_memory", "DeepSpeed pins the parameters' buffer in any case");
  }
  if (!states && !params) mute_all(c.aio, "nothing is offloaded to \"nvme\"");
  if (!offloads_optimizer(c) || c.stage == 3) return;
  c.zero.mute("contiguous_gradients", "offload_optimizer makes it true");
}

}  // namespace shardmark
