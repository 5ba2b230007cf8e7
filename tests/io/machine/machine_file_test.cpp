// SPDX-License-Identifier: Apache-2.0
// Rules: a machine that is written and read again is the same; a malformed or absurd value is
// refused with its key and what to do; the shipped machine files are sound.
#include <fstream>

#include <nlohmann/json.hpp>

#include <io/machine/machine_file.hpp>
#include <io/machine/shipped_machines.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::machine_file_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Every section with its keys, in values that differ from their defaults.
constexpr const char* whole = R"({
  "machine_file": 1, "name": "test",
  "provenance": {"host": "h", "date": "2026-11-23", "program": "p", "source": "s",
                 "commands": ["c"], "versions": ["v"], "calibrations": 3, "samples": 7, "spread": 0.5, "busy": false,
                 "held_out_error": 0.25, "crosswise_error_90": 0.125,
                 "fitted_on": {"least_hidden": 768, "most_hidden": 8192, "most_ranks": 64, "types": ["bf16"]},
                 "note": "n",
                 "figures": [{"key": "device", "kind": "nominal", "source": "datasheet"}]},
  "node": {"cores": 8, "sockets": 2, "numa_domains": 2, "ranks": 4, "nodes": 3,
           "core_to_core_ns": 32, "shares_memory_bus": true, "memory_gb_per_s": 200, "host_memory_gib": 64,
           "disk_gib": 100},
  "device": {"name": "d", "is_host": true, "memory_gib": 16,
             "peak_tflops": {"fp32": 2, "bf16": 4}, "product_efficiency": 0.5,
             "product_efficiency_by_dtype": {"bf16": 0.25}, "memory_gb_per_s": 100,
             "stream_efficiency": 0.5, "product_operand_efficiency": 0.5,
             "multiprocessors": 108, "product_fill_depth": 128, "softmax_depth": 32,
             "fp8_tflops": 8, "portable_attention": 0.5,
             "attention_efficiency": 0.5, "attention_backward_efficiency": 0.5,
             "launch_us": 4, "event_us": 2,
             "products": [{"dtype": "bf16", "result": "fp32", "accumulate": true, "busy_ranks": 2,
                           "m_n_k_batch_us": [[64, 32, 16, 2, 8], [128, 64, 32, 1, 16]]}],
             "streams": [{"kernel": "adamw", "dtype": "fp32", "source": "bf16", "busy_ranks": 2,
                          "updated": true, "elems_width_us": [[1024, 32, 4]]}]},
  "network": [
    {"name": "node", "between_nodes": false, "library": "shm", "topology": "bus",
     "link": {"latency_us": 1, "gb_per_s": 16, "measured": true, "source": "s"},
     "compute_share": 0.25, "speed_beside_compute": 0.5,
     "collectives": [{"op": "all_gather", "dtype": "bf16", "ranks": 4, "ranks_per_node": 2,
                      "beside_compute": true, "in_place": true, "bytes_us": [[1024, 2], [4096, 4]]}]},
    {"name": "fabric", "between_nodes": true, "link": {"latency_us": 2, "gb_per_s": 8},
     "node_gb_per_s": 32, "oversubscription": 2, "efficiency": 0.5,
     "nccl": {"ring_channels": 8, "ring_channel_gb_per_s": 16, "tree_channels": 4,
              "tree_channel_gb_per_s": 8, "network_latency_us": 8}}],
  "placements": [
    {"core_to_core_ns": 128, "part": 0.25,
     "streams": [{"kernel": "adamw", "dtype": "fp32", "source": "bf16", "busy_ranks": 2,
                  "elems_width_us": [[1024, 32, 2]]}],
     "network": [{"name": "node", "collectives": [{"op": "reduce", "bytes_us": [[64, 1]]}]}]}],
  "host_link": {"to_device": {"latency_us": 4, "gb_per_s": 16, "bytes_us": [[1024, 8]]},
                "to_host": {"latency_us": 4, "gb_per_s": 8}},
  "disk": {"read": {"gb_per_s": 2, "bytes_us": [[4096, 64]]}, "write": {"gb_per_s": 1}},
  "jitter": {"step_relative_sd": 0.25, "rank_relative_sd": 0.125, "step_quantiles": [0.5, 1, 2],
             "rank_skew": {"ranks": 2, "work_us_us": [[64, 8], [1024, 32]]},
             "noise": {"quantum_us": 1024, "quanta": 1000, "lost_part": 0.03125, "detours_per_s": 4,
                       "detour_us": 8, "quanta_us": [[2, 1]], "ranks_us": [[64, 2]],
                       "period_us_us": [[4096, 8]],
                       "ranks": [{"rank": 1, "host": "h", "lost_part": 0.5,
                                  "quanta_us": [[2, 1], [10, 4]]}]}},
  "step_us": 16,
  "software": {"eager": true, "native_norms": true, "composed_loss": true,
               "synchronizes": true, "attention": "unfused", "overlaps": false,
               "fp8_products": true, "eager_traffic": 2, "eager_launch_us": 8}
})";

class MachineFile : public ::testing::Test {
 protected:
  Machine read(const Json& json) const {
    return read_machine_file(folder_.write("m.json", json.dump()));
  }
  std::string refusal(const char* pointer, const Json& value) const {
    Json json = Json::parse(whole);
    json[Json::json_pointer(pointer)] = value;
    return message_of<DeckError>([&] { read(json); });
  }
  std::string refusal_without(const char* key) const {
    Json json = Json::parse(whole);
    json.erase(key);
    return message_of<DeckError>([&] { read(json); });
  }

  ScratchFolder folder_;
};

// Each key of `whole` is there again with its value, although some have other units inside.
TEST_F(MachineFile, is_the_same_after_it_is_written_and_read) {
  const Json given = Json::parse(whole);
  const Json written = machine_json(read(given));
  const Json flat = given.flatten();
  for (const auto& [key, value] : flat.items()) {
    ASSERT_TRUE(written.contains(Json::json_pointer(key))) << key;
    EXPECT_EQ(written[Json::json_pointer(key)], value) << key;
  }
  const Machine again = read_machine_file(folder_.write("t.json", machine_text(read(given))));
  EXPECT_EQ(machine_json(again), written);
}

TEST(ShippedMachine, has_software_at_the_end_of_its_name) {
  EXPECT_FALSE(software_of_name("dgx-h100").eager);
  EXPECT_TRUE(software_of_name("dgx-h100-eager").eager);
  EXPECT_EQ(software_of_name("dgx-h100-eager").attention, AttentionKernel::portable_fused);
  EXPECT_EQ(software_of_name("mi300x-unfused").attention, AttentionKernel::unfused);
}

TEST_F(MachineFile, refuses_what_is_malformed_or_absurd) {
  const struct {
    const char* pointer;
    Json value;
    std::vector<std::string> says;
  } cases[] = {
      {"/machine_file", 2, {"machine_file = 2", "1"}},
      {"/nmae", "x", {"nmae", "unknown key", "name"}},
      {"/device/memory_gb_per_s", -1, {"device.memory_gb_per_s = -1"}},
      {"/device/memory_gb_per_s", "fast", {"device.memory_gb_per_s = \"fast\"", "number"}},
      {"/device/product_efficiency", 1.5, {"device.product_efficiency = 1.5", "1"}},
      {"/device/peak_tflops/fp23", 1, {"device.peak_tflops.fp23", "unknown key"}},
      {"/device/products/0/m_n_k_batch_us/0/4", 0, {"m_n_k_batch_us[0]", "5 numbers above 0"}},
      {"/device/products/0/dtype", "fp8", {"device.products[0].dtype = \"fp8\"", "bf16"}},
      {"/network", 3, {"network = 3", "array"}},
      {"/network/0/link/latency_us", -2, {"network[0].link.latency_us = -2"}},
      {"/network/0/collectives/0/op", "all_together", {"network[0].collectives[0].op"}},
      {"/network/0/collectives/0/ranks", 0, {"network[0].collectives[0].ranks = 0"}},
      {"/network/0/collectives/0/bytes_us/1/0", 1024, {"bytes_us", "sizes must ascend"}},
      {"/network/1/oversubscription", 0.5, {"network[1].oversubscription = 0.5"}},
      {"/network/1/nccl/ring_channels", 0, {"network[1].nccl.ring_channel_gb_per_s"}},
      {"/placements/0/core_to_core_ns", -1, {"placements[0].core_to_core_ns = -1"}},
      {"/placements/0", Json::object(), {"placements[0].core_to_core_ns", "missing", "give the"}},
      {"/jitter/step_quantiles/1", 0, {"jitter.step_quantiles = 0", "above 0"}},
      {"/jitter/rank_relative_sd", 2, {"jitter.rank_relative_sd = 2"}},
      {"/jitter/rank_skew/work_us_us/1/0", 64, {"jitter.rank_skew.work_us_us", "must ascend"}},
      {"/device/memory_gib", 8.5e10, {"device.memory_gib", "did you mean 79.1624?"}},
      {"/device/peak_tflops/bf16", 989e12, {"device.peak_tflops.bf16", "did you mean 989?"}},
      {"/device/stream_efficiency", 85, {"device.stream_efficiency", "did you mean 0.85?"}},
      {"/network/1/node_gb_per_s", 400e9, {"network[1].node_gb_per_s", "did you mean 400?"}},
      {"/device/launch_us", 4e12, {"device.launch_us", "at most 1000000000"}},
      {"/node/host_memory_gib", 1e9, {"node.host_memory_gib", "at most 1000000"}},
      {"/provenance/figures/0/kind", "guess", {"provenance.figures[0].kind = \"guess\""}},
  };
  for (const auto& c : cases) {
    const std::string message = refusal(c.pointer, c.value);
    expect_says(message, {"m.json"});
    expect_says(message, c.says);
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  expect_says(refusal_without("machine_file"), {"machine_file", "missing", "version"});
  expect_says(refusal_without("device"), {"device", "missing", "peak_tflops"});
}

TEST_F(MachineFile, check_names_what_is_missing_or_absurd) {
  const auto said = [&](const Json& json) {
    std::string all;
    for (const std::string& sentence : check_machine(read(json))) all += sentence + "; ";
    return all;
  };
  Json json = {{"machine_file", 1}, {"name", "bare"}, {"device", {{"peak_tflops", {{"fp32", 1}}}}}};
  for (const char* part :
       {"device.products: missing", "device.streams: missing", "device.memory_gb_per_s: missing",
        "network: missing", "host_link: missing", "disk: missing", "jitter: missing",
        "provenance: missing"})
    expect_says(said(json), {part});
  json = Json::parse(whole);
  EXPECT_EQ(check_machine(read(json)),
            std::vector<std::string>{"network[1].collectives: missing: collectives are priced by "
                                     "latency and bandwidth of the link"});
  json["device"]["products"][0]["m_n_k_batch_us"][0][4] = 1e-3;  // above the peak
  expect_says(said(json), {"device.products[0]: absurd", "64 x 32 x 16", "above the peak of 4"});
  json["network"][0]["collectives"][0]["ranks_per_node"] = 5;
  expect_says(said(json), {"network[0]: absurd: all_gather has 4 ranks, 5 of them on a node"});
}

TEST_F(MachineFile, knows_how_many_ranks_it_describes) {
  const Machine m = read(Json::parse(whole));
  EXPECT_NO_THROW(require_ranks(m, "m.json", 12, 4));
  expect_says(message_of<DeckError>([&] { require_ranks(m, "m.json", 13, 4); }),
              {"node.nodes = 3", "13 ranks", "at most 12"});
  Json one_node = Json::parse(whole);
  one_node["network"].erase(1);
  expect_says(message_of<DeckError>([&] { require_ranks(read(one_node), "m.json", 5, 4); }),
              {"network: missing", "between_nodes", "at most 4"});
  Json nodes_alone = Json::parse(whole);
  nodes_alone["network"].erase(0);
  const Machine no_links = read(nodes_alone);
  EXPECT_NO_THROW(require_ranks(no_links, "m.json", 3, 1));
  expect_says(message_of<DeckError>([&] { require_ranks(no_links, "m.json", 12, 4); }),
              {"network: missing", "between_nodes false", "--ranks-per-node 1"});
}

TEST_F(MachineFile, has_no_more_devices_in_a_node_than_it_says) {
  Json json = Json::parse(whole);
  json["device"]["is_host"] = false;
  json["node"] = {{"ranks", 4}};
  const Machine devices = read(json);
  EXPECT_NO_THROW(require_ranks(devices, "m.json", 8, 4));
  expect_says(message_of<DeckError>([&] { require_ranks(devices, "m.json", 16, 8); }),
              {"node.ranks = 4", "8 ranks per node", "--ranks-per-node 4"});
  json["device"]["is_host"] = true;  // cores may be shared
  EXPECT_NO_THROW(require_ranks(read(json), "m.json", 16, 8));
}

TEST_F(MachineFile, shipped_ones_are_sound) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(SHARDMARK_TESTS "/../inputs/machines")) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path().filename().string());
    ++files;
    const Machine m = read_machine_file(entry.path().string());
    const std::string text = machine_text(m);
    EXPECT_EQ(machine_text(read_machine_file(folder_.write("m.json", text))), text);
    for (const std::string& sentence : check_machine(m))
      EXPECT_EQ(sentence.find("absurd"), std::string::npos) << sentence;
    EXPECT_FALSE(m.provenance.figures.empty()) << "no figure has a source";
    EXPECT_NO_THROW(require_ranks(m, "m.json", 2 * m.node.ranks, m.node.ranks));
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace shardmark::test::machine_file_test
