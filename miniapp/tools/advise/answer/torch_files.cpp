// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/deck/optimizers.hpp>
#include <core/text.hpp>
#include <miniapp/tools/advise/answer/write_decks.hpp>

namespace shardmark {
namespace {

using TorchJson = nlohmann::ordered_json;

bool shards_modules(const Deck& deck) {
  return deck.zero.stage >= 2;
}

std::string_view wrapper_of(const Deck& deck) {
  if (shards_modules(deck)) return "fully_shard";
  return deck.zero.stage == 1 ? "DistributedDataParallel, ZeroRedundancyOptimizer"
                              : "DistributedDataParallel";
}

// The arguments that the optimizer of torch.optim takes.
TorchJson optimizer_arguments(const OptimizerSpec& o) {
  TorchJson a{{"lr", o.lr}};
  const std::string_view name = traits(o.type).name;
  if (name == "Adam" || name == "AdamW") {
    a["betas"] = {o.beta1, o.beta2};
    a["eps"] = o.eps;
  } else if (name == "Adagrad") {
    a["lr_decay"] = o.lr_decay;
    a["initial_accumulator_value"] = o.first_accumulator;
    a["eps"] = o.eps;
  } else {
    a["momentum"] = o.momentum;
    if (name == "SGD") a["dampening"] = o.dampening;
    a["nesterov"] = o.nesterov;
  }
  a["weight_decay"] = o.weight_decay;
  return a;
}

TorchJson mesh_of(const TorchAdvice& a) {
  const TorchSpec& t = a.deck.torch;
  if (t.mesh_shard == 0) return TorchJson::array({a.ranks});
  if (t.mesh_replicate == 1) return TorchJson::array({t.mesh_shard});
  return TorchJson::array({t.mesh_replicate, t.mesh_shard});
}

// Stage 2 is `fully_shard` that keeps its parameters after forward.
TorchJson reshard_of(const Deck& deck) {
  const TorchSpec& t = deck.torch;
  if (deck.zero.stage == 2) return false;
  if (t.reshard_ranks > 0) return t.reshard_ranks;
  return t.reshard_after_forward ? TorchJson(*t.reshard_after_forward) : TorchJson(nullptr);
}

TorchJson policy_of(const TorchSpec& t) {
  TorchJson policy = TorchJson::object();
  if (t.param_dtype) policy["param_dtype"] = to_string(*t.param_dtype);
  if (t.reduce_dtype) policy["reduce_dtype"] = to_string(*t.reduce_dtype);
  return policy;
}

TorchJson fully_shard_section(const TorchAdvice& a) {
  const TorchSpec& t = a.deck.torch;
  TorchJson s;
  if (!t.fully_shard.empty()) s["fully_shard"] = t.fully_shard;
  s["mesh"] = mesh_of(a);
  s["reshard_after_forward"] = reshard_of(a.deck);
  s["mp_policy"] = policy_of(t);
  s["offload_policy"] =
      t.cpu_offload ? TorchJson{{"pin_memory", t.pin_memory}} : TorchJson(nullptr);
  if (t.shard_dim != 0) s["shard_placement_fn"] = t.shard_dim;
  s["set_modules_to_forward_prefetch"] = t.forward_prefetch;
  s["set_modules_to_backward_prefetch"] = t.backward_prefetch;
  s["set_requires_gradient_sync"] = t.requires_gradient_sync;
  s["set_requires_all_reduce"] = t.requires_all_reduce;
  s["set_reshard_after_backward"] = t.reshard_after_backward;
  s["set_is_last_backward"] = t.is_last_backward;
  for (const std::string& module : t.stays_sharded_in_backward)
    s["set_unshard_in_backward"][module] = false;
  if (t.gradient_divide_factor) s["set_gradient_divide_factor"] = *t.gradient_divide_factor;
  s["set_force_sum_reduction_for_comms"] = t.force_sum_reduction;
  s["set_reduce_scatter_max_input_buffers"] = t.max_input_buffers;
  return s;
}

TorchJson ddp_section(const TorchAdvice& a) {
  const TorchSpec& t = a.deck.torch;
  TorchJson s;
  if (t.bucket_cap_mb) s["bucket_cap_mb"] = *t.bucket_cap_mb;
  s["find_unused_parameters"] = t.find_unused_parameters;
  s["static_graph"] = t.static_graph;
  s["gradient_as_bucket_view"] = t.gradient_as_bucket_view;
  s["init_sync"] = t.init_sync;
  s["no_sync"] = t.no_sync;
  if (a.deck.zero.stage == 1) s["parameters_as_bucket_view"] = t.parameters_as_bucket_view;
  if (t.param_dtype) s["mp_policy"] = policy_of(t);
  return s;
}

std::string python_dtype(Dtype type) {
  return type == Dtype::bf16   ? "torch.bfloat16"
         : type == Dtype::fp16 ? "torch.float16"
                               : "torch.float32";
}

std::string python_bool(bool value) {
  return value ? "True" : "False";
}

// JSON's literals in Python's spelling, for values without text in them.
std::string python_value(const TorchJson& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return python_bool(value.get<bool>());
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const TorchJson& part : value) parts.push_back(python_value(part));
  return "(" + join(parts, ", ") + (parts.size() == 1 ? ",)" : ")");
}

std::string python_arguments(const TorchJson& arguments) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : arguments.items())
    parts.push_back(name + "=" + python_value(value));
  return join(parts, ", ");
}

std::string checkpoint_lines() {
  return "    apply_activation_checkpointing(model, checkpoint_wrapper_fn=checkpoint_wrapper,\n"
         "                                   check_fn=lambda module: module in blocks)\n"
         "    blocks = [m for m in model.modules() if isinstance(m, CheckpointWrapper)]\n";
}

std::string prefetch_lines(const TorchSpec& t) {
  std::string text;
  if (t.forward_prefetch > 0)
    text +=
        fmt::format("        block.set_modules_to_forward_prefetch(blocks[i + 1 : i + 1 + {}])\n",
                    t.forward_prefetch);
  if (t.backward_prefetch > 0)
    text += fmt::format(
        "        block.set_modules_to_backward_prefetch(blocks[max(0, i - {}) : i][::-1])\n",
        t.backward_prefetch);
  return text.empty() ? text : "    for i, block in enumerate(blocks):\n" + text;
}

std::string sharding_lines(const TorchAdvice& a) {
  const TorchSpec& t = a.deck.torch;
  const TorchJson mesh = mesh_of(a);
  std::string text = fmt::format(
      "    mesh = init_device_mesh(device, {}, mesh_dim_names={})\n"
      "    policy = MixedPrecisionPolicy({}{}{})\n"
      "    options = dict(mesh=mesh, mp_policy=policy{})\n",
      python_value(mesh), mesh.size() == 2 ? R"(("replicate", "shard"))" : R"(("shard",))",
      t.param_dtype ? "param_dtype=" + python_dtype(*t.param_dtype) : "",
      t.param_dtype && t.reduce_dtype ? ", " : "",
      t.reduce_dtype ? "reduce_dtype=" + python_dtype(*t.reduce_dtype) : "",
      t.cpu_offload ? fmt::format(", offload_policy=CPUOffloadPolicy(pin_memory={})",
                                  python_bool(t.pin_memory))
                    : "");
  const TorchJson reshard = reshard_of(a.deck);
  const std::string argument =
      reshard.is_null() ? "" : ", reshard_after_forward=" + python_value(reshard);
  text += fmt::format(
      "    for block in blocks:\n        fully_shard(block{0}, **options)\n"
      "    fully_shard(model{0}, **options)\n",
      argument);
  return text + prefetch_lines(t) + "    return model\n";
}

std::string ddp_lines(const TorchAdvice& a) {
  TorchJson arguments = ddp_section(a);
  for (const char* other : {"no_sync", "parameters_as_bucket_view", "mp_policy"})
    arguments.erase(other);
  return fmt::format("    return DistributedDataParallel(model, {})\n",
                     python_arguments(arguments));
}

std::string optimizer_lines(const TorchAdvice& a) {
  const OptimizerSpec& o = a.deck.zero.optimizer;
  const std::string type = fmt::format("torch.optim.{}", traits(o.type).name);
  const std::string arguments = python_arguments(optimizer_arguments(o));
  std::string text = "\n\ndef make_optimizer(model):\n";
  if (traits(o.type).name == "Muon")
    text += "    # torch.optim.Muon takes matrices only: give the others to torch.optim.AdamW.\n";
  if (a.deck.zero.stage != 1)
    return text + fmt::format("    return {}(model.parameters(), {})\n", type, arguments);
  return text + fmt::format(
                    "    return ZeroRedundancyOptimizer(\n        model.parameters(), "
                    "optimizer_class={},\n        parameters_as_bucket_view={}, {})\n",
                    type, python_bool(a.deck.torch.parameters_as_bucket_view), arguments);
}

std::string import_lines(const Deck& deck) {
  std::string text = "import torch\n";
  if (deck.run.activation_checkpointing)
    text +=
        "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (\n"
        "    CheckpointWrapper, apply_activation_checkpointing, checkpoint_wrapper)\n";
  if (shards_modules(deck))
    return text +
           "from torch.distributed.device_mesh import init_device_mesh\n"
           "from torch.distributed.fsdp import " +
           (deck.torch.cpu_offload ? "CPUOffloadPolicy, " : "") +
           "MixedPrecisionPolicy, fully_shard\n";
  if (deck.zero.stage == 1) text += "from torch.distributed.optim import ZeroRedundancyOptimizer\n";
  return text + "from torch.nn.parallel import DistributedDataParallel\n";
}

// What the training loop must do.
std::string loop_notes(const TorchAdvice& a) {
  const TorchSpec& t = a.deck.torch;
  std::string text =
      fmt::format("# Per step: {} sequences on {}, in {} of {} each. Optimizer states are fp32.\n",
                  a.batch.global, plural(a.ranks, "rank"),
                  plural(a.batch.accumulation, "micro-batch"), plural(a.batch.micro, "sequence"));
  if (a.deck.zero.gradient_clipping > 0)
    text += fmt::format(
        "# Before each optimizer.step(): torch.nn.utils.clip_grad_norm_(model.parameters(), {})\n",
        a.deck.zero.gradient_clipping);
  if (!shards_modules(a.deck)) {
    if (t.no_sync && a.batch.accumulation > 1)
      text += "# Run the micro-batches before the last one of a step under model.no_sync().\n";
    if (t.param_dtype)
      text += fmt::format("# Run forward under torch.autocast(\"cuda\", dtype={}).\n",
                          python_dtype(*t.param_dtype));
    return text;
  }
  for (const auto& [on, name] : {std::pair{t.requires_gradient_sync, "set_requires_gradient_sync"},
                                 std::pair{t.requires_all_reduce, "set_requires_all_reduce"},
                                 std::pair{t.reshard_after_backward, "set_reshard_after_backward"},
                                 std::pair{t.is_last_backward, "set_is_last_backward"}})
    if (!on)
      text += fmt::format(
          "# model.{0}(False) before each step, model.{0}(True) before its last "
          "micro-batch.\n",
          name);
  return text;
}

}  // namespace

TorchJson torch_json(const TorchAdvice& a) {
  const Deck& deck = a.deck;
  return {{"pytorch", "2.15"},
          {"wrapper", wrapper_of(deck)},
          {"world_size", a.ranks},
          {"train_batch_size", a.batch.global},
          {"micro_batch_size", a.batch.micro},
          {"gradient_accumulation_steps", a.batch.accumulation},
          {"activation_checkpointing", deck.run.activation_checkpointing},
          {"gradient_clipping", deck.zero.gradient_clipping},
          {"optimizer",
           {{"type", traits(deck.zero.optimizer.type).name},
            {"params", optimizer_arguments(deck.zero.optimizer)}}},
          {"torch", shards_modules(deck) ? fully_shard_section(a) : ddp_section(a)}};
}

std::string torch_python(const TorchAdvice& a) {
  return "# Written by `shardmark advise --for torch` for PyTorch 2.15: " +
         std::string(wrapper_of(a.deck)) + ".\n" + loop_notes(a) + import_lines(a.deck) +
         fmt::format("\n\ndef wrap_model(model, blocks{}):\n",
                     shards_modules(a.deck) ? ", device=\"cuda\"" : "") +
         "    \"\"\"`blocks`: a list of the model's transformer blocks, in their order.\"\"\"\n" +
         (a.deck.run.activation_checkpointing ? checkpoint_lines() : "") +
         (shards_modules(a.deck) ? sharding_lines(a) : ddp_lines(a)) + optimizer_lines(a);
}

}  // namespace shardmark
