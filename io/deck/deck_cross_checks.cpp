// SPDX-License-Identifier: Apache-2.0
// Rules that join several sections of a deck: for example the data must fit the model, and the
// model must be able to do what run.compute asks for.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <core/owned_fd.hpp>
#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/deck/quantized.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

bool trains(const Deck& deck) {
  return deck.run.compute == Compute::train && traits(deck.model.family).has_arithmetic;
}

// Returns the size in bytes of a regular file that can be opened for reading.
std::int64_t readable_bytes(const std::string& path, const Origin& origin) {
  const OwnedFd fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!fd)
    origin.refuse("data.path", path,
                  fmt::format("{}: give a file that can be read", std::strerror(errno)));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0)
    origin.refuse("data.path", path, fmt::format("{}: give another file", std::strerror(errno)));
  if (!S_ISREG(status.st_mode))
    origin.refuse("data.path", path,
                  "is not a regular file: name a file, not a folder or a device");
  return status.st_size;
}

void check_file(const Deck& deck, const Origin& origin) {
  constexpr std::int64_t byte_values = 256;
  if (deck.model.vocab < byte_values)
    origin.refuse("model.vocab", deck.model.vocab,
                  "must be at least 256 for data.source \"file\": its tokens are bytes");
  const std::int64_t bytes = readable_bytes(deck.data.path, origin);
  if (bytes <= deck.model.sequence + 1)
    origin.refuse(
        "data.path", deck.data.path,
        fmt::format("has {} bytes: must have more than model.sequence + 1 = {}: give a longer "
                    "file or a shorter sequence",
                    bytes, deck.model.sequence + 1));
}

// Checkpoints hold an fp32 master of every parameter.
void check_states(const Deck& deck, const Origin& origin) {
  const bool writes = !deck.checkpoint.dir.empty();
  if (writes && !deck.model.frozen.empty())
    origin.not_modelled("model.frozen", deck.model.frozen,
                        "checkpoints of frozen parameters: remove the section checkpoint");
  if (writes && deck.zero.precision.master != Dtype::fp32)
    origin.not_modelled("deepspeed.bf16.bf16_master_weights_and_grads", true,
                        "checkpoints of a bf16 master: remove the section checkpoint");
  if (deck.zero.offload_param.nvme && !deck.model.frozen.empty())
    origin.not_modelled("model.frozen", deck.model.frozen,
                        "frozen parameters in files: remove it, or offload_param's \"nvme\"");
}

// What is not modelled beside an adapter's frozen parameters.
void check_adapter(const Deck& deck, const Origin& origin) {
  if (deck.model.family != Family::decoder || !deck.model.decoder->adapted()) return;
  const auto refuse = [&](const std::string& what) {
    origin.not_modelled("model.adapter", deck.model.decoder->adapter.size.rank, what);
  };
  if (!traits(deck.run.schedule).follows_deepspeed)
    refuse("it is modelled under run.schedule \"deepspeed\": set that");
  if (deck.zero.offload_param.nvme)
    refuse("frozen parameters in files: set offload_param.device to \"cpu\"");
  if (is_muon(deck.zero.optimizer.type))
    refuse("the optimizer Muon beside frozen parameters: choose another optimizer");
}

// The families with arithmetic have classes of torch.nn alone.
void note_absent_classes(const Deck& deck, Origin& origin) {
  for (const std::string& name : deck.zero.precision.autocast.safe_classes)
    if (!name.starts_with("torch.nn.") &&
        std::none_of(deck.model.modules.begin(), deck.model.modules.end(),
                     [&](const ListModule& m) { return m.python_class == name; }))
      origin.note(
          FindingKind::warning, "deepspeed.torch_autocast.lower_precision_safe_modules",
          fmt::format("\"{}\": no module of this model has that class, so it selects none", name));
}

// Autocast treats modules by their classes. Its arithmetic, in which some values have 16 bits and
// others 32, is not modelled.
void check_autocast(const Deck& deck, Origin& origin) {
  if (!deck.zero.precision.autocast.dtype) return;
  if (trains(deck))
    origin.not_modelled(
        "deepspeed.torch_autocast.enabled", true,
        "the arithmetic of run.compute \"train\" under autocast: set run.compute to "
        "\"none\"");
  if (deck.zero.stage == 0) return;
  for (std::size_t i = 0; i < deck.model.modules.size(); ++i) {
    const ListModule& module = deck.model.modules[i];
    if (!module.numels.empty() && module.python_class.empty())
      origin.missing(fmt::format("model.modules.{}.class", i),
                     fmt::format("deepspeed.torch_autocast sends the gradients of some classes in "
                                 "16 bits: give the Python class of \"{}\", for example "
                                 "\"torch.nn.Linear\"",
                                 module.name));
  }
  note_absent_classes(deck, origin);
}

// DeepSpeed looks for the classes of leaf modules among all modules; of a config's model only the
// class of the blocks of experts is known.
void check_leaf_classes(const Deck& deck, const Origin& origin) {
  if (deck.zero.stage != 3 || !traits(deck.run.schedule).follows_deepspeed) return;
  std::vector<std::string> known = LeafModules().classes;
  for (const ListModule& m : deck.model.modules) known.push_back(m.python_class);
  known.push_back(deck.model.decoder->moe.block_class);
  for (const std::string& name : deck.zero.knobs.leaves.classes)
    if (std::none_of(known.begin(), known.end(),
                     [&](const std::string& k) { return LeafModules::means(name, k); }))
      origin.not_modelled("deepspeed.zero_optimization.leaf_module.classes", name,
                          "it is not known which modules have this class: name them by "
                          "name_suffixes, or give the modules of a list their class");
}

void check_shard_size(const Deck& deck, Origin& origin) {
  const std::int64_t size = deck.run.shard_size;
  if (size == 0) return;
  if (!traits(deck.run.schedule).takes_shard_size)
    origin.refuse("run.shard_size", size,
                  traits(deck.run.schedule).follows_torch
                      ? "needs run.schedule \"paper\": with PyTorch's schedule, set torch.mesh"
                      : "needs run.schedule \"paper\": with DeepSpeed's schedule, set "
                        "zero_optimization.zero_hpz_partition_size at stage 3");
  if (deck.zero.stage == 0)
    origin.note(
        FindingKind::no_effect, "run.shard_size",
        fmt::format("{}: stage 0 partitions no states, so every rank holds all of them", size));
}

// What is not modelled beside an axis. `lacking` says why this model has no such axis, if so.
void check_axis(const Deck& deck, const MeshAxis& axis, const std::string& lacking,
                const Origin& origin) {
  const auto refuse = [&](const std::string& what) {
    origin.not_modelled(std::string(axis.key), axis.ranks,
                        fmt::format("{}: {}", what, axis.remedy));
  };
  if (!traits(deck.run.schedule).follows_deepspeed)
    refuse("it is modelled under run.schedule \"deepspeed\"");
  if (!lacking.empty()) refuse(lacking);
  const RunSpec& run = deck.run;
  const ZeroSpec& z = deck.zero;
  const bool bf16_optimizer = uses_bf16_optimizer(
      z.stage, z.precision.model, z.precision.grad_accum, z.offload_optimizer.enabled);
  const std::pair<bool, const char*> rules[] = {
      {run.compute != Compute::train, "run.compute \"none\""},
      {is_muon(z.optimizer.type), "the optimizer Muon"},
      {deck.model.fit.has_value(), "model.fit"},
      {run.activation_checkpointing && run.reentrant, "re-entrant activation checkpointing"},
      {bf16_optimizer, "bf16 parameters and data_types.grad_accum_dtype fp32 at stage 1"},
      {z.precision.autocast.dtype.has_value(), "torch_autocast"},
      // DeepSpeed makes these groups of neighbours in the world, which share no partition.
      {z.stage == 3 && z.knobs.hpz_partition_size > 1, "zero_hpz_partition_size"},
      {z.knobs.quantized_weights || z.knobs.quantized_gradients, "quantized communication"}};
  for (const auto& [broken, what] : rules)
    if (broken) refuse(what);
}

// What is refused if ranks divide layers as well as experts.
void check_folding(const Deck& deck, const MeshAxis& tensors, const Origin& origin) {
  const ZeroSpec& z = deck.zero;
  if (z.parallel.same_experts_near)
    origin.refuse(
        "deepspeed.use_data_before_expert_parallelism", true,
        fmt::format("DeepSpeed does not support it beside {}: remove the key", tensors.name()));
  if (z.offload_optimizer.enabled || z.offload_param.enabled)
    origin.refuse("deepspeed.tensor_parallel.autotp_size", tensors.ranks,
                  "DeepSpeed refuses it beside expert_parallel with offload (\"ZeRO "
                  "optimizer/parameter offload with AutoEP+AutoTP folding is not validated yet\"): "
                  "remove offload_optimizer and offload_param, or either axis");
  if (z.stage == 0 && z.precision.model != Dtype::fp32 && !z.optimizer.unfused)
    origin.not_modelled("deepspeed.zero_optimization.stage", 0,
                        "DeepSpeed's own Adam with divided layers and experts: set "
                        "optimizer.params.torch_adam to true, or another stage");
}

// What is not modelled beside experts that ranks divide.
void check_experts(const Deck& deck, const MeshAxis& tensors, const MeshAxis& axis,
                   const Origin& origin) {
  const ZeroSpec& z = deck.zero;
  std::string lacking = unspreadable(deck.model, axis.ranks);
  if (lacking.empty() && z.stage == 3)
    lacking = z.knobs.use_all_reduce_for_fetch_params ? "use_all_reduce_for_fetch_params"
              : !(z.knobs.leaves == LeafModules{})    ? "leaf_module"
                                                      : "";
  check_axis(deck, axis, lacking, origin);
  if (tensors.ranks > 1) check_folding(deck, tensors, origin);
  if (z.stage == 0 && z.precision.model == Dtype::fp32 && z.gradient_clipping > 0)
    origin.not_modelled("deepspeed.gradient_clipping", z.gradient_clipping,
                        "at stage 0 in fp32 DeepSpeed averages norms of ranks with other experts: "
                        "set it to 0 (its default is 1.0), or another stage or type");
  if (z.stage == 0) return;
  for (const auto& [given, key] : {std::pair(z.knobs.reduce_scatter, "reduce_scatter"),
                                   std::pair(z.knobs.contiguous_gradients, "contiguous_gradients")})
    if (!given)
      origin.refuse(std::string("deepspeed.zero_optimization.") + key, false,
                    "DeepSpeed needs it for experts: set it to true");
}

// What DeepSpeed 0.19.8 says to divided samples beside another axis. Without the mpu of Ulysses it
// runs, but the weights of ranks that divide a sample drift apart (docs/axes.md).
void check_beside_samples(const MeshAxis& tensors, const MeshAxis& samples, const MeshAxis& experts,
                          const Origin& origin) {
  const auto refuse = [&](const std::string& why) {
    origin.refuse(std::string(samples.key), samples.ranks, why);
  };
  if (experts.ranks > 1)
    refuse(
        fmt::format("DeepSpeed refuses it beside expert_parallel (\"AutoEP does not currently "
                    "support tensor model parallelism from mpu\"): remove the key, or {}",
                    experts.remedy));
  if (tensors.ranks > 1)
    refuse(
        fmt::format("beside {} the same ranks would divide layers and samples, and DeepSpeed stops "
                    "(\"Data inconsistency within the TP group\"): remove either key",
                    tensors.name()));
}

// What DeepSpeed 0.19.8 does at stage 3 on a rank without heads: it gathers no module whose weights
// have no elements, and then waits for these weights.
void check_heads(const Deck& deck, const MeshAxis& tensors, const Origin& origin) {
  const std::int64_t keys = kv_heads_of(deck.model);
  if (deck.zero.stage != 3 || tensors.ranks <= keys) return;
  origin.refuse(std::string(tensors.key), tensors.ranks,
                fmt::format("at stage 3 DeepSpeed stops on ranks beyond the {} heads of keys and "
                            "values (AssertionError, \"'status': 'NOT_AVAILABLE', 'numel': 0\"): "
                            "set it to at most {}, or another stage",
                            keys, keys));
}

void check_axes(const Deck& deck, const Origin& origin) {
  const auto [tensors, samples, experts] = deck.zero.parallel.axes();
  if (samples.ranks > 1) check_beside_samples(tensors, samples, experts, origin);
  if (tensors.ranks > 1) {
    const std::string what = undividable(deck.model, tensors.ranks, experts.ranks > 1);
    check_axis(
        deck, tensors,
        what.empty() ? what : "AutoTP cannot divide the model, or it is not modelled, with " + what,
        origin);
    check_heads(deck, tensors, origin);
  }
  if (samples.ranks > 1) check_axis(deck, samples, unsplittable(deck.model, samples.ranks), origin);
  if (experts.ranks > 1) check_experts(deck, tensors, experts, origin);
}

void note_routing(const Deck& deck, Origin& origin) {
  if (deck.model.family != Family::decoder) return;
  const MoeSpec& moe = deck.model.decoder->moe;
  if (moe.experts == 0 || moe.routing == Routing::balanced) return;
  const std::string sizes =
      deck.zero.parallel.expert > 1
          ? fmt::format(
                "so do messages, and memory has room for model.expert_room = {:g} times as "
                "many on a rank",
                moe.room)
          : "memory and messages do not depend on it";
  origin.note(FindingKind::assumed, "model.routing",
              fmt::format("learned: predictions take the experts of a layer to have equally many "
                          "tokens, and a run reports how many they had; {}. "
                          "--set model.routing=balanced makes them equal",
                          sizes));
}

}  // namespace

void check_together(const Deck& deck, Origin& origin) {
  check_states(deck, origin);
  check_adapter(deck, origin);
  check_autocast(deck, origin);
  check_leaf_classes(deck, origin);
  check_shard_size(deck, origin);
  check_axes(deck, origin);
  note_routing(deck, origin);
  const bool uses_data = trains(deck);
  const auto no_effect = [&](bool holds, const char* key, const char* why) {
    if (holds) origin.note(FindingKind::no_effect, key, why);
  };
  const ExpectSpec& expect = deck.expect;
  no_effect(deck.data.source != DataSource::none && !uses_data, "data",
            "nothing is trained, so no tokens are read");
  if (deck.data.source == DataSource::file && uses_data) check_file(deck, origin);
  if (deck.checkpoint.benchmark > 0 && deck.run.compute != Compute::none)
    origin.refuse("checkpoint.benchmark", deck.checkpoint.benchmark,
                  "needs run.compute \"none\": storage is measured without training");
  if (expect.loss && expect.tolerance == 0)
    origin.note(FindingKind::warning, "expect.tolerance",
                "0: the loss must equal expect.loss exactly");
  no_effect(!expect.loss && expect.tolerance != 0, "expect.tolerance",
            "there is no expect.loss to compare with");
  no_effect(!expect.loss && (expect.train_batch_size != 0 || expect.steps != 0), "expect",
            "train_batch_size and steps describe the run that expect.loss belongs to, and there is "
            "no expect.loss");
  no_effect(!uses_data && (expect.loss || expect.loss_drop != 0), "expect",
            "nothing is trained, so there is no loss");
  no_effect(deck.machine.host_link_gbps && !deck.zero.offload_optimizer.enabled &&
                !deck.zero.offload_param.enabled,
            "machine.host_link_gbps",
            "nothing is offloaded, so nothing is copied between host and device");
  no_effect(deck.machine.ranks_per_node > 0 && !sends_int4(deck), "machine.ranks_per_node",
            "only zero_quantized_gradients at stage 3 asks for it");
  no_effect(deck.data.source == DataSource::uniform && expect.loss_drop != 0, "expect.loss_drop",
            "uniform data has no structure to learn");
}

namespace {

// PyTorch may leave parameters untrained. Plans show that; runs train all of them.
bool visits_all(const ModelSpec& model) {
  return std::all_of(model.modules.begin(), model.modules.end(), [&](const ListModule& m) {
    const auto index = static_cast<int>(&m - model.modules.data());
    return m.numels.empty() || model.visits.empty() ||
           std::any_of(model.visits.begin(), model.visits.end(), [&](const Visit& v) {
             return v.module == (m.name.empty() ? root_module : index);
           });
  });
}

// The part of a decoder that the plan knows and the kernels do not.
const char* uncomputed_part(const ModelSpec& model) {
  if (!traits(model.family).has_arithmetic) return nullptr;
  const Decoder& d = *decoder_of(model);
  const MoeSpec& m = d.moe;
  if (m.experts > 0 && m.groups > 1 && m.scores != Scores::sigmoid)
    return "groups of experts (model.moe.groups) whose scores are not sigmoids";
  return nullptr;
}

}  // namespace

std::vector<Finding> missing_to_run(const Deck& deck) {
  std::vector<Finding> lacks;
  const auto lack = [&](const char* key, std::string text) {
    lacks.push_back({FindingKind::warning, key, std::move(text)});
  };
  if (traits(deck.run.schedule).follows_torch &&
      !(deck.torch.frozen.empty() && deck.model.frozen.empty()))
    lack("torch.frozen", "only `plan` models parameters that are not trained: remove the key");
  if (traits(deck.run.schedule).follows_torch && !visits_all(deck.model))
    lack("model.visits", "leaves out modules with parameters, which only `plan` models: add them");
  if (deck.run.steps == 0)
    lack("run.steps", "missing: give the number of steps, an integer, at least 1");
  if (!traits(deck.model.family).has_arithmetic && deck.run.compute == Compute::train)
    lack("run.compute",
         "\"train\" needs a forward pass, which a model of family \"list\" does not have: give "
         "\"none\"");
  if (trains(deck) && deck.zero.precision.master != Dtype::fp32)
    lack("run.compute",
         "\"train\" with bf16_master_weights_and_grads: PyTorch's arithmetic in bf16 is not "
         "modelled, "
         "so such a deck can be planned, and run without arithmetic: give \"none\"");
  if (const char* uncomputed = uncomputed_part(deck.model); trains(deck) && uncomputed != nullptr)
    lack("run.compute",
         fmt::format("\"train\" with {}: its values are not computed yet, so such a deck can be "
                     "planned and predicted, and run without arithmetic: give \"none\"",
                     uncomputed));
  if (trains(deck) && deck.data.source == DataSource::none)
    lack("data",
         "missing: give the section that says what to train on, e.g. {\"source\": \"markov\"}");
  return lacks;
}

}  // namespace shardmark
