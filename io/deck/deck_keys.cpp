// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include <io/deck/deck_keys.hpp>
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum KeyType;

constexpr double most_steps = 1e9, most_seconds = 1e9;
constexpr double most_seed = 4294967295, most_shard = 2147483647;

// clang-format off
constexpr Key run_keys[] = {
    Key("steps", in<&RunSpec::steps>, "the number of timed steps").within({1, most_steps})
        .or_else("null"),
    Key("warmup", in<&RunSpec::warmup>, "the number of warm-up steps, which come first")
        .within({0, most_steps}),
    Key("seed", in<&RunSpec::seed>, "the seed of the initial values and of the data")
        .within({0, most_seed}),
    Key("schedule", in<&RunSpec::schedule>,
        "which collectives, copies and computations a step consists of"),
    Key("compute", in<&RunSpec::compute>, "whether models compute").one_of("train|none|gemm?"),
    Key("reductions", in<&RunSpec::reductions>, "in which order gradients are summed"),
    Key("memory_mode", in<&RunSpec::memory_mode>, "whether buffers have fixed places")
        .one_of("pooled|strict"),
    Key("activation_checkpointing", any, "false",
        "each transformer block keeps only its input, and its forward pass runs again during "
        "backward"),
    Key("shard_size", in<&RunSpec::shard_size>, "the number of ranks that states are sharded over")
        .within({1, most_shard}).or_else("null"),
    Key("time_limit_s", in<&RunSpec::time_limit_s>, "seconds since the run began to read its deck")
        .within({0, most_seconds, true}),
};

constexpr Key comm_keys[] = {
    Key("backend", in<&CommSpec::backend>, "which library carries out the collectives"),
    Key("timeout_s", in<&CommSpec::timeout_s>, "a collective that takes longer ends the run")
        .within({0, most_seconds, true}),
    Key("delay_ms", in<&CommSpec::delay_ms>, "every collective takes this much longer")
        .within({0, 1e6}),
};

constexpr Key machine_keys[] = {
    Key("host_link_gbps", in<&MachineSpec::host_link_gbps>,
        "emulates a link of this bandwidth in GB/s (1e9 bytes per second) between host and device")
        .within({0, 1e6, true}),
    Key("ranks_per_node", in<&MachineSpec::ranks_per_node>,
        "the ranks per node that `zero_quantized_gradients` goes by").within({1, most_ranks}),
};

constexpr Key expect_keys[] = {
    Key("loss", in<&ExpectSpec::loss>, "the expected last loss"),
    Key("tolerance", in<&ExpectSpec::tolerance>, "how far the last loss may be from `expect.loss`")
        .at_least(0),
    Key("loss_drop", in<&ExpectSpec::loss_drop>, "by how much the mean loss must fall").at_least(0),
    Key("train_batch_size", in<&ExpectSpec::train_batch_size>,
        "the global batch of the runs to which `expect.loss` applies; 0 means any").at_least(0),
    Key("steps", in<&ExpectSpec::steps>, "the steps, including warm-up, of these runs; 0 means any")
        .at_least(0),
};
// clang-format on

}  // namespace

std::span<const Section> deck_sections() {
  static constexpr Section sections[] = {
      {"run", run_keys}, {"comm", comm_keys}, {"machine", machine_keys}, {"expect", expect_keys}};
  return sections;
}

std::span<const Key> deck_keys(std::string_view name) {
  for (const Section& section : deck_sections())
    if (section.path == name) return section.keys;
  throw std::logic_error("no records of this section");
}

const Key* key_at(std::string_view path) {
  constexpr std::string_view deepspeed = "deepspeed.";
  if (path.starts_with(deepspeed)) return ds_key(path.substr(deepspeed.size()));
  for (const Section& section : deck_sections())
    if (path.starts_with(section.path) && path.substr(section.path.size()).starts_with('.'))
      return find_key(section.keys, path.substr(section.path.size() + 1));
  return nullptr;
}

}  // namespace shardmark
