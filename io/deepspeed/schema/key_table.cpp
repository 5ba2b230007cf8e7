// SPDX-License-Identifier: Apache-2.0
// The top level of a DeepSpeed config. Checked against DeepSpeed 0.19.8.
#include <fmt/core.h>

#include <io/deepspeed/schema/key_table.hpp>
#include <io/keys/origin.hpp>

namespace shardmark {
namespace {

using enum KeyType;
using K = ZeroKnobs;
using Z = ZeroSpec;

// clang-format off
constexpr Key top_level[] = {
    Key("train_batch_size", in<&Z::train_batch_size>, "the sequences of a step on all ranks")
        .of_type(any).filled_by("hf.per_device_train_batch_size").used(),
    Key("train_micro_batch_size_per_gpu", in<&Z::micro_batch_size>,
        "the sequences of a micro-batch of a rank").of_type(any)
        .filled_by("hf.per_device_train_batch_size").used(),
    Key("gradient_accumulation_steps", in<&Z::accumulation_steps>, "the micro-batches of a step")
        .of_type(any).filled_by("hf.gradient_accumulation_steps").used(),
    Key("gradient_clipping", in<&Z::gradient_clipping>, "the largest norm of all gradients")
        .filled_by("hf.max_grad_norm").used(),
    Key("optimizer", object, "{}").used(),
    Key(zero_section, any, "{}").used(),
    Key("fp16", object, "{}").used(),
    Key("bf16", object_or_null, "{}").also("bfloat16").used(),
    Key("data_types", object, "{}").used(),
    Key("scheduler", object, "{}").used(),
    Key("communication_data_type", word_any_case, "null", "gradients are communicated in this type")
        .one_of("fp32|fp16|bf16").used(),
    Key("seq_parallel_communication_data_type", word_any_case, "null",
        "gradients are communicated in this type if ranks divide samples").one_of("fp32|fp16|bf16").used(),
    Key("prescale_gradients", in<&K::prescale_gradients>,
        "gradients are divided before they are summed").of_type(truth).changes(),
    Key("gradient_predivide_factor", in<&K::gradient_predivide_factor>,
        "the part of the division that comes before the sum").changes(),
    Key("gradient_allreduce_op", word_any_case, "\"mean\"",
        "gradients of ranks are averaged or summed").one_of("mean|sum").changes(),
    Key("managed_gradient_accumulation", in<&K::managed_accumulation>,
        "DeepSpeed counts micro-batches").of_type(truth).tunes(),
    Key("disable_allgather", truth, "false"),
    Key("zero_allow_untested_optimizer", truth, "false",
        "optimizers that ZeRO was not tested with are accepted").used(),
    Key("zero_force_ds_cpu_optimizer", truth, "true"),
    Key("steps_per_print", number, "null", "after how many steps wall_clock_breakdown prints")
        .used(),
    Key("wall_clock_breakdown", boolean, "false", "the times of the parts of a step are printed")
        .used(),
    Key("memory_breakdown", truth, "false"),
    Key("dump_state", truth, "false"),
    Key("timers", object, "{}"),
    Key("comms_logger", object, "{}").used(),
    Key("flops_profiler", object, "{}"),
    Key("tensorboard", object, "{}").one_of("auto"),
    Key("wandb", object, "{}").one_of("auto"),
    Key("comet", object, "{}").one_of("auto"),
    Key("csv_monitor", object, "{}").one_of("auto"),
    Key("checkpoint", object, "{}"),
    Key("aio", object_or_null, "{}").used(three),
    Key("activation_checkpointing", object, "{}"),
    Key("log_level", any, "null"),
    Key("datastates_ckpt", any, "null"),
    Key("vocabulary_size", any, "null"),
    Key("sequence_parallel_size", integer, "1", "the ranks that divide each sample").at_least(1).used(),
    Key("data_parallel_size", integer, "null").refused(),
    Key("use_data_before_expert_parallelism", truth, "false", "ranks with the same experts are neighbours").used(),
    Key("disable_python_gc", truth, "false"),
    Key("expert_parallel", any, "{}").used(),
    Key("dataloader_drop_last", truth, "false"),
    Key("autotuning", object, "{}"),
    Key("torch_autocast", object, "{}").used(),
    Key("compile", object, "{}").used(),
    Key("data_efficiency", object, "{}").used(),
    Key("hybrid_engine", object, "{}").used(),
    Key("pipeline", object, "{}"),
    Key("tensor_parallel", object, "{}").used(),
    Key("weight_quantization", object, "{}").used(),
    removed("amp", "use fp16, bf16 or torch_autocast"),
    removed("compression_training"),
    removed("curriculum_learning",
        "DeepSpeed has it at data_efficiency.data_sampling.curriculum_learning now"),
    removed("eigenvalue"),
    removed("elasticity", "set the batch sizes directly"),
    removed("graph_harvesting"),
    removed("nebula"),
    removed("progressive_layer_drop"),
    removed("quantize_training"),
    removed("sparse_attention"),
    removed("sparse_gradients"),
};
// clang-format on

constexpr Section top{"", top_level, Reading::dictionary};

}  // namespace

const std::vector<Section>& ds_sections() {
  static const std::vector<Section> all = [] {
    std::vector<Section> sections{top};
    for (const auto& some : {zero_sections(), typed_sections(), optimizer_sections(),
                             tool_sections(), engine_sections()})
      sections.insert(sections.end(), some.begin(), some.end());
    return sections;
  }();
  return all;
}

const Section* find_section(std::string_view path, std::string_view owner) {
  for (const Section& section : ds_sections())
    if (section.path == path && section.owner == owner) return &section;
  return nullptr;
}

const Section& ds_section(std::string_view path, std::string_view owner) {
  if (const Section* section = find_section(path, owner)) return *section;
  throw std::logic_error(fmt::format("no table of the section {} {}", path, owner));
}

const Key* ds_key(std::string_view path) {
  const auto [parent, name] = split_key(path);
  for (const Section& section : ds_sections())
    if (section.path == parent)
      if (const Key* key = find_key(section.keys, name)) return key;
  return nullptr;
}

std::string_view hf_key_of(std::string_view path) {
  constexpr std::string_view root = "deepspeed.";
  if (path.starts_with(root)) path.remove_prefix(root.size());
  const Key* key = ds_key(path);
  // The trainer knows only the longer one of two spellings.
  const bool known = key != nullptr && (key->alias.empty() || path.ends_with(key->alias));
  return known ? key->hf : std::string_view();
}

std::string auto_remedy(std::string_view path) {
  const std::string_view hf_key = hf_key_of(path);
  if (hf_key.empty())
    return "\"auto\" is for Hugging Face's trainer, which does not fill this key: give a value";
  if (hf_key == "hf")
    return "\"auto\" is for Hugging Face's trainer to fill in: add the section \"hf\": {} to the "
           "deck (--set hf={}), or give a value";
  return fmt::format(
      "\"auto\" is for Hugging Face's trainer to fill in: give {} in the section \"hf\" of the "
      "deck "
      "or with --set (hf={{}} takes the trainer's defaults), or give a value",
      hf_key);
}

}  // namespace shardmark
