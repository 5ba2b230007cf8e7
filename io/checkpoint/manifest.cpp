// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/checked.hpp>
#include <io/checkpoint/checksum.hpp>
#include <io/checkpoint/folder.hpp>
#include <io/checkpoint/manifest.hpp>
#include <io/checkpoint/stored_layout.hpp>
#include <io/files/hash.hpp>
#include <io/files/regular_file.hpp>
#include <io/json/json_source.hpp>

namespace shardmark {
namespace {

constexpr const char* other_checkpoint = "give another checkpoint as checkpoint.resume";

// What a manifest may say: no run comes near, and no sum of these passes 63 bits.
constexpr std::int64_t max_position = std::int64_t{1} << 53;  // of steps: exact in any JSON reader
constexpr std::int64_t max_samples = std::int64_t{1} << 62;
constexpr std::int64_t max_ranks = std::int64_t{1} << 24;
constexpr std::int64_t max_elems = std::int64_t{1} << 48;       // of the model: 281 trillion
constexpr std::int64_t max_file_bytes = std::int64_t{1} << 54;  // of those, in all states
constexpr std::int64_t max_stage = 3;
constexpr std::size_t max_dimensions = 32;  // HDF5's own bound

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw IoError(fmt::format("{}: is damaged: {}: {}", path, what, other_checkpoint));
}

// A whole number within bounds: nlohmann's own conversions wrap around.
std::int64_t integer_of(const Json& value, const std::string& what, std::int64_t lowest,
                        std::int64_t highest) {
  const bool good = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(highest) &&
                              static_cast<std::int64_t>(value.get<std::uint64_t>()) >= lowest
                        : value.is_number_integer() && value.get<std::int64_t>() >= lowest &&
                              value.get<std::int64_t>() <= highest;
  if (!good)
    throw std::invalid_argument(fmt::format("{} = {}: must be an integer from {} to {}", what,
                                            brief(value), lowest, highest));
  return value.get<std::int64_t>();
}
std::int64_t integer_at(const Json& object, const char* key, std::int64_t lowest,
                        std::int64_t highest) {
  return integer_of(object.at(key), std::string(key), lowest, highest);
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}
std::uint64_t from_hex(const Json& text) {
  const auto value = text.get<std::string>();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number, 16);
  if (error != std::errc{} || end != value.data() + value.size() || value.size() != 16)
    throw std::invalid_argument("the checksum " + brief(text));
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
  Json part{{"rank", p.rank},
            {"file", p.file},
            {"offset", p.offset},
            {"elems", p.elems},
            {"map", std::move(map)},
            {"xxh3", by_state(m, [&](std::size_t s) { return hex(p.digest[s]); })}};
  if (!m.views.empty()) part["view"] = p.view;
  return part;
}

// A parameter that is not cut is its place in `params` alone.
Json write_view(const ModelView& view) {
  Json list = Json::array();
  for (const ParamInWhole& p : view) {
    Json entry{p.param};
    if (p.slice.cuts()) entry = {p.param, p.elems, p.slice.first, p.slice.width, p.slice.pitch};
    list.push_back(std::move(entry));
  }
  return list;
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
  // Checkpoints of Adam, of which alone there are older ones, do not name it.
  if (!share_states(m.optimizer, Optimizer::adamw)) o["optimizer"] = to_string(m.optimizer);
  o["block_elems"] = checksum_block_elems;
  o["dtypes"] = Json::object();
  for (State s : m.stored()) o["dtypes"][std::string(to_string(s))] = to_string(m.dtype_of(s));
  for (const StoredParam& p : m.params) o["params"].push_back({p.name, p.shape});
  if (!m.frozen.empty()) o["frozen"] = m.frozen;
  for (const ModelView& v : m.views) o["views"].push_back(write_view(v));
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
  throw std::invalid_argument("unknown type " + brief(name));
}

// Optimizers of one name differ in their states.
Optimizer read_optimizer(const Json& name, const Json& dtypes) {
  for (const Optimizer o : all_values<Optimizer>) {
    const auto stored = [&](State s) { return dtypes.contains(to_string(s)) == has_moment(o, s); };
    if (name == to_string(o) && stored(State::momentum) && stored(State::variance)) return o;
  }
  throw std::invalid_argument("optimizer " + brief(name) + " with dtypes = " + brief(dtypes));
}

ModelView read_view(const Manifest& m, const Json& list) {
  ModelView view;
  std::int64_t elems = 0;
  for (const Json& entry : list) {
    ParamInWhole p;
    p.param = integer_of(entry.at(0), "a parameter of a view", 0, std::ssize(m.params) - 1);
    p.elems = m.params[static_cast<std::size_t>(p.param)].elems;
    if (entry.size() > 1) {
      p.elems = integer_of(entry.at(1), "elements in a view", 1, p.elems);
      p.slice = {integer_of(entry.at(2), "a slice of a view", 0, max_elems),
                 integer_of(entry.at(3), "a slice of a view", 1, max_elems),
                 integer_of(entry.at(4), "a slice of a view", 1, max_elems)};
    }
    elems = checked_add(elems, p.elems, "a view");
    view.push_back(p);
  }
  if (view.empty()) throw std::invalid_argument("a view without parameters");
  return view;
}

CheckpointPart read_part(const Manifest& m, const Json& o) {
  CheckpointPart p;
  if (!m.views.empty())
    p.view = static_cast<int>(integer_at(o, "view", 0, std::ssize(m.views) - 1));
  p.rank = static_cast<int>(integer_at(o, "rank", 0, max_ranks - 1));
  p.file = static_cast<int>(integer_at(o, "file", 0, std::ssize(m.files) - 1));
  p.offset = integer_at(o, "offset", 0, max_elems), p.elems = integer_at(o, "elems", 0, max_elems);
  const Json& map = o.at("map");
  if (!map.is_array() || map.size() % 2 != 0) throw std::invalid_argument("a part's map");
  for (std::size_t i = 0; i < map.size(); i += 2)
    p.map.push_back({integer_of(map[i], "an element in a map", 0, max_elems),
                     integer_of(map[i + 1], "a count in a map", 1, max_elems)});
  for (State s : m.stored()) p.digest[s] = from_hex(o.at("xxh3").at(std::string(to_string(s))));
  return p;
}

LossScaleState read_loss_scale(const Json& o) {
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  LossScaleState l;
  if (!o.at("scale").is_number()) throw std::invalid_argument("scale = " + brief(o.at("scale")));
  l.scale = o.at("scale").get<double>();
  if (!std::isfinite(l.scale) || l.scale <= 0)
    throw std::invalid_argument("scale = " + brief(o.at("scale")) + ": must be above 0");
  l.hysteresis = integer_at(o, "hysteresis", -any, any);
  l.update = integer_at(o, "update", -1, max_position);
  l.last_overflow = integer_at(o, "last_overflow", -any, max_position);
  return l;
}

StoredParam read_param(const Json& o) {
  StoredParam param{o.at(0).get<std::string>(), 1, {}};
  const Json& shape = o.at(1);
  if (!shape.is_array() || shape.size() > max_dimensions)
    throw std::invalid_argument("shape of " + brief(o.at(0)));
  for (const Json& size : shape) {
    param.shape.push_back(integer_of(size, "a size of " + brief(o.at(0)), 1, max_elems));
    param.elems = checked_mul(param.elems, param.shape.back(), "elements of " + brief(o.at(0)));
  }
  return param;
}

CheckpointFile read_file(const Manifest& m, const Json& o) {
  CheckpointFile file{
      o.at("name").get<std::string>(), integer_at(o, "bytes", 0, max_file_bytes), {}};
  const auto control = [](unsigned char c) { return c < ' ' || c == 127; };
  if (file.name.empty() || file.name[0] == '.' || file.name == manifest_file ||
      file.name.find('/') != std::string::npos ||
      std::any_of(file.name.begin(), file.name.end(), control))
    throw std::invalid_argument("file name " + brief(o.at("name")));
  for (State s : m.stored()) {
    const std::string state(to_string(s));
    file.first_byte[s] =
        integer_of(o.at("first_byte").at(state), "first_byte of " + state, 0, file.bytes);
  }
  return file;
}

Manifest read_body(const Json& o) {
  Manifest m;
  m.position.step = integer_at(o, "step", 0, max_position);
  m.position.updates = integer_at(o, "updates", 0, m.position.step);
  m.samples = integer_at(o, "samples", 0, max_samples);
  m.position.loss_scale = read_loss_scale(o.at("loss_scale"));
  m.world = static_cast<int>(integer_at(o, "world", 1, max_ranks));
  m.stage = static_cast<int>(integer_at(o, "stage", 0, max_stage));
  m.schedule = o.at("schedule").get<std::string>();
  (void)integer_at(o, "block_elems", checksum_block_elems, checksum_block_elems);
  const Json& dtypes = o.at("dtypes");
  if (dtypes.contains("param")) m.model_dtype = float_type(dtypes.at("param"));
  m.optimizer = read_optimizer(o.value("optimizer", Json(to_string(Optimizer::adamw))), dtypes);
  for (State s : m.stored())
    if (float_type(dtypes.at(std::string(to_string(s)))) != m.dtype_of(s))
      throw std::invalid_argument("dtypes = " + brief(dtypes));
  for (const Json& p : o.at("params")) m.params.push_back(read_param(p));
  if (m.elems() > max_elems)
    throw std::invalid_argument(
        fmt::format("{} elements: a model has at most {}", m.elems(), max_elems));
  m.frozen = o.value("frozen", "");
  if (o.contains("views"))
    for (const Json& v : o.at("views")) m.views.push_back(read_view(m, v));
  std::set<std::string> names;
  for (const Json& f : o.at("files")) {
    m.files.push_back(read_file(m, f));
    if (!names.insert(m.files.back().name).second)
      throw std::invalid_argument("file name " + brief(f.at("name")) + " stands twice");
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
    const auto f = static_cast<std::size_t>(p.file);
    std::int64_t mapped = 0;
    for (const ElementRange& r : p.map) mapped = checked_add(mapped, r.elems, "map");
    if (p.offset != elems[f] || p.elems != mapped) throw std::invalid_argument("a part's place");
    p.first_block = blocks[f];
    elems[f] += p.elems;
    blocks[f] += checksum_blocks(p.elems);
  }
  for (std::size_t f = 0; f < m.files.size(); ++f)
    for (State s : m.stored()) {
      const std::int64_t room = m.files[f].bytes - m.files[f].first_byte[s];
      if (elems[f] > room / dtype_bytes(m.dtype_of(s)))
        throw std::invalid_argument(fmt::format("{} elements of {} do not fit into {}", elems[f],
                                                to_string(s), m.files[f].name));
    }
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
  return fmt::format("{{\"format\":{},\"xxh3\":\"{}\",\n\"checkpoint\":{}}}\n",
                     manifest.views.empty() ? 1 : checkpoint_format, hash_hex(body), body);
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  try {
    const Json o = parse_json(text, path, JsonRules::deck);
    const std::int64_t format = integer_at(o, "format", 1, std::numeric_limits<int>::max());
    if (format > checkpoint_format)
      throw IoError(
          fmt::format("{}: is a checkpoint of format {}: this program reads formats up to {}: use "
                      "a newer ShardMark",
                      path, format, checkpoint_format));
    const Json& body = o.at("checkpoint");
    if (o.at("xxh3") != hash_hex(body.dump())) damaged(path, "its checksum does not match");
    Manifest m = read_body(body);
    place_blocks(m);
    (void)StoredLayout(m);  // which proves that each element is there once
    return m;
  } catch (const Json::out_of_range&) {
    damaged(path, "a key is missing");
  } catch (const Json::exception&) {
    damaged(path, "a value is of another type");
  } catch (const JsonSyntaxError& e) {
    damaged(path, e.what());
  } catch (const std::invalid_argument& e) {
    damaged(path, e.what());
  } catch (const PlanError& e) {
    damaged(path, e.what());
  } catch (const DeckError& e) {  // it names the path itself
    throw IoError(fmt::format("{}: {}", e.what(), other_checkpoint));
  }
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + manifest_file;
  const std::string text =
      read_regular_file(path, max_manifest_bytes, "give a folder that is a checkpoint");
  Manifest m = parse_manifest(text, path);
  std::error_code none;
  const auto named = step_of_name(std::filesystem::canonical(folder, none).filename().string());
  if (named && *named != m.position.step)
    damaged(path,
            fmt::format("it is of step {}, its folder's name says {}", m.position.step, *named));
  return m;
}

}  // namespace shardmark
