// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/plan/deck/checked.hpp>
#include <io/checkpoint/checksum.hpp>
#include <io/checkpoint/manifest.hpp>
#include <io/files/hash.hpp>

namespace shardmark {
namespace {

using Json = nlohmann::json;

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw IoError(
      fmt::format("{}: is damaged: {}: give another checkpoint as checkpoint.resume", path, what));
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}
std::uint64_t from_hex(const Json& text) {
  const auto value = text.get<std::string>();
  std::size_t read = 0;
  const std::uint64_t number = std::stoull(value, &read, 16);
  if (read != value.size() || read != 16) throw std::invalid_argument("bad checksum " + value);
  return number;
}

Json by_state(const Manifest& m, auto value_of) {
  Json o = Json::object();
  for (State s : m.stored()) o[std::string(to_string(s))] = value_of(static_cast<std::size_t>(s));
  return o;
}

Json write_part(const Manifest& m, const CheckpointPart& p) {
  Json map = Json::array();
  for (const ElementRange& r : p.map) {
    map.push_back(r.first);
    map.push_back(r.elems);
  }
  return {{"rank", p.rank},
          {"file", p.file},
          {"offset", p.offset},
          {"elems", p.elems},
          {"map", std::move(map)},
          {"xxh3", by_state(m, [&](std::size_t s) { return hex(p.digest[s]); })}};
}

Json write_body(const Manifest& m) {
  Json o;
  o["step"] = m.position.step;
  o["updates"] = m.position.updates;
  o["samples"] = m.samples;
  const LossScaleState& l = m.position.loss_scale;
  o["loss_scale"] = {{"scale", l.scale},
                     {"hysteresis", l.hysteresis},
                     {"update", l.update},
                     {"last_overflow", l.last_overflow}};
  o["world"] = m.world;
  o["stage"] = m.stage;
  o["schedule"] = m.schedule;
  o["block_elems"] = checksum_block_elems;
  o["dtypes"] = Json::object();
  for (State s : m.stored()) o["dtypes"][std::string(to_string(s))] = to_string(m.dtype_of(s));
  for (const StoredParam& p : m.params) o["params"].push_back({p.name, p.shape});
  for (const CheckpointFile& f : m.files)
    o["files"].push_back(
        {{"name", f.name}, {"bytes", f.bytes}, {"first_byte", by_state(m, [&](std::size_t s) {
                                                  return f.first_byte[s];
                                                })}});
  for (const CheckpointPart& p : m.parts) o["parts"].push_back(write_part(m, p));
  o["deck"] = Json::parse(m.deck, nullptr, true, true);
  o["versions"] = m.versions;
  return o;
}

Dtype float_type(const Json& name) {
  for (Dtype d : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
    if (name == to_string(d)) return d;
  throw std::invalid_argument("unknown type " + name.dump());
}

CheckpointPart read_part(const Manifest& m, const Json& o) {
  CheckpointPart p;
  p.rank = o.at("rank"), p.file = o.at("file");
  p.offset = o.at("offset"), p.elems = o.at("elems");
  const auto map = o.at("map").get<std::vector<std::int64_t>>();
  for (std::size_t i = 0; i + 1 < map.size(); i += 2) p.map.push_back({map[i], map[i + 1]});
  for (State s : m.stored())
    p.digest[static_cast<std::size_t>(s)] = from_hex(o.at("xxh3").at(std::string(to_string(s))));
  return p;
}

Manifest read_body(const Json& o) {
  Manifest m;
  m.position.step = o.at("step"), m.position.updates = o.at("updates");
  m.samples = o.at("samples");
  const Json& l = o.at("loss_scale");
  m.position.loss_scale = {l.at("scale"), l.at("hysteresis"), l.at("update"),
                           l.at("last_overflow")};
  m.world = o.at("world"), m.stage = o.at("stage"), m.schedule = o.at("schedule");
  if (o.at("block_elems") != checksum_block_elems) throw std::invalid_argument("block_elems");
  const Json& dtypes = o.at("dtypes");
  if (dtypes.contains("param")) m.model_dtype = float_type(dtypes.at("param"));
  for (const Json& p : o.at("params")) {
    StoredParam param{p.at(0), 1, p.at(1).get<std::vector<std::int64_t>>()};
    for (std::int64_t size : param.shape) {
      if (size < 1) throw std::invalid_argument("shape of " + param.name);
      param.elems = checked_mul(param.elems, size, param.name);
    }
    m.params.push_back(std::move(param));
  }
  for (const Json& f : o.at("files")) {
    CheckpointFile file{f.at("name"), f.at("bytes"), {}};
    if (file.name.empty() || file.name.find('/') != std::string::npos)
      throw std::invalid_argument("file name " + file.name);
    for (State s : m.stored())
      file.first_byte[static_cast<std::size_t>(s)] =
          f.at("first_byte").at(std::string(to_string(s)));
    m.files.push_back(std::move(file));
  }
  for (const Json& p : o.at("parts")) m.parts.push_back(read_part(m, p));
  m.deck = o.at("deck").dump(2);
  m.versions = o.at("versions").get<std::map<std::string, std::string>>();
  return m;
}

// The parts of one file follow one another in the order of the list.
void place_blocks(Manifest& m) {
  std::vector<std::int64_t> elems(m.files.size()), blocks(m.files.size());
  for (CheckpointPart& p : m.parts) {
    if (p.file < 0 || p.file >= static_cast<int>(m.files.size()))
      throw std::invalid_argument("a part's file");
    const auto f = static_cast<std::size_t>(p.file);
    std::int64_t mapped = 0;
    for (const ElementRange& r : p.map) {
      if (r.first < 0 || r.elems < 1) throw std::invalid_argument("a part's map");
      mapped = checked_add(mapped, r.elems, "map");
    }
    if (p.offset != elems[f] || p.elems != mapped) throw std::invalid_argument("a part's place");
    p.first_block = blocks[f];
    elems[f] += p.elems;
    blocks[f] += checksum_blocks(p.elems);
  }
}

void require_cover(const Manifest& m) {
  std::vector<ElementRange> all;
  for (const CheckpointPart& p : m.parts) all.insert(all.end(), p.map.begin(), p.map.end());
  std::sort(all.begin(), all.end(),
            [](const ElementRange& a, const ElementRange& b) { return a.first < b.first; });
  std::int64_t next = 0;
  for (const ElementRange& r : all) {
    if (r.first != next) throw std::invalid_argument(fmt::format("element {}", next));
    next += r.elems;
  }
  if (next != m.elems()) throw std::invalid_argument(fmt::format("element {}", next));
}

}  // namespace

std::int64_t Manifest::elems() const {
  std::int64_t sum = 0;
  for (const StoredParam& p : params) sum = checked_add(sum, p.elems, "parameters");
  return sum;
}

std::int64_t Manifest::state_bytes() const {
  std::int64_t bytes = 0;
  for (State s : stored()) bytes += elems() * dtype_bytes(dtype_of(s));
  return bytes;
}

std::string write_manifest(const Manifest& manifest) {
  const std::string body = write_body(manifest).dump();
  return fmt::format("{{\"format\":{},\"xxh3\":\"{}\",\n\"checkpoint\":{}}}\n", checkpoint_format,
                     hash_hex(body), body);
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  try {
    const Json o = Json::parse(text);
    const int format = o.at("format");
    if (format > checkpoint_format)
      throw IoError(
          fmt::format("{}: is a checkpoint of format {}: this program reads formats up to {}: use "
                      "a newer ShardMark",
                      path, format, checkpoint_format));
    const Json& body = o.at("checkpoint");
    if (o.at("xxh3") != hash_hex(body.dump())) damaged(path, "its checksum does not match");
    Manifest m = read_body(body);
    place_blocks(m);
    require_cover(m);
    return m;
  } catch (const Json::exception& e) {
    damaged(path, e.what());
  } catch (const std::invalid_argument& e) {
    damaged(path, e.what());
  } catch (const PlanError& e) {
    damaged(path, e.what());
  }
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + manifest_file;
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw IoError(fmt::format("{}: cannot be read: give a folder that is a checkpoint", path));
  std::ostringstream text;
  text << in.rdbuf();
  return parse_manifest(std::move(text).str(), path);
}

}  // namespace shardmark
