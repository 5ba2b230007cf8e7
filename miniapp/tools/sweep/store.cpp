// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/text.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/hash.hpp>
#include <io/files/regular_file.hpp>
#include <miniapp/tools/sweep/store.hpp>

namespace shardmark {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view prefix = "point-";
constexpr const char* point_file = "point.json";
constexpr std::int64_t max_point_bytes = std::int64_t{16} << 20;

bool has_values_of(const SweepPoint& p, const std::vector<Axis>& axes) {
  if (p.at.values.size() != axes.size()) return false;
  return std::ranges::all_of(axes, [&](const Axis& axis) {
    return std::ranges::any_of(p.at.values, [&](const auto& value) {
      return value.first == axis.key &&
             std::find(axis.values.begin(), axis.values.end(), value.second) != axis.values.end();
    });
  });
}

std::string points(std::size_t n) {
  return plural(static_cast<std::int64_t>(n), "point");
}

}  // namespace

PointStore::PointStore(std::string folder, std::string identity)
    : folder_(std::move(folder)), identity_(std::move(identity)) {
  std::error_code error;
  if (!fs::is_directory(folder_, error)) return;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const fs::path file = at->path() / point_file;
    if (at->path().filename().string().starts_with(prefix) && fs::exists(file, error))
      read(file.string());
  }
  if (error) fail_io(folder_, "cannot be read", error.message(), output_remedy);
  std::ranges::sort(damaged_);
}

void PointStore::read(const std::string& file) {
  try {
    const OrderedJson json =
        OrderedJson::parse(read_regular_file(file, max_point_bytes, output_remedy));
    if (json.at("sweep") != identity_) {
      ++foreign_;
      return;
    }
    SweepPoint point = point_of_json(json.at("point"));
    if (fs::path(file).parent_path().filename() != name_of(point.at))
      throw IoError("is in the folder of another point");
    points_.insert_or_assign(point.at.name(), std::move(point));
  } catch (const std::exception& e) {
    damaged_.push_back(
        fmt::format("{}: cannot be used, so its point is done again: {}", file, e.what()));
  }
}

const SweepPoint* PointStore::find(const GridPoint& at) const {
  const auto it = points_.find(at.name());
  return it == points_.end() ? nullptr : &it->second;
}

std::vector<int> PointStore::other_ranks(const std::vector<Axis>& axes,
                                         const std::vector<int>& ranks) const {
  std::vector<int> others;
  for (const auto& [name, p] : points_)
    if (has_values_of(p, axes) && std::find(ranks.begin(), ranks.end(), p.at.ranks) == ranks.end())
      others.push_back(p.at.ranks);
  std::ranges::sort(others);
  others.erase(std::unique(others.begin(), others.end()), others.end());
  return others;
}

std::vector<std::string> PointStore::notes(const std::vector<GridPoint>& grid) const {
  std::vector<std::string> lines = damaged_;
  const auto in_grid = static_cast<std::size_t>(
      std::ranges::count_if(grid, [&](const GridPoint& p) { return find(p) != nullptr; }));
  if (foreign_ > 0)
    lines.push_back(fmt::format(
        "{}: {} of another deck, version or kind of sweep: not in this table, done again", folder_,
        points(foreign_)));
  if (points_.size() > in_grid)
    lines.push_back(fmt::format("{}: {} of other keys or values: not in this table", folder_,
                                points(points_.size() - in_grid)));
  if (in_grid > 0)
    lines.push_back(
        fmt::format("{}: {} done before: kept, not done again (remove a point's folder "
                    "to repeat it)",
                    folder_, points(in_grid)));
  return lines;
}

std::string PointStore::name_of(const GridPoint& at) const {
  return std::string(prefix) + hash_hex(identity_ + "\n" + at.name());
}

std::string PointStore::folder_of(const GridPoint& at) const {
  return folder_ + "/" + name_of(at);
}

void PointStore::keep(const SweepPoint& point) {
  const std::string folder = folder_of(point.at);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_io(folder, "cannot be created", error.message(), output_remedy);
  const OrderedJson json = {{"sweep", identity_}, {"point", to_json(point)}};
  replace_file(folder, point_file,
               json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n",
               output_remedy);
  points_.insert_or_assign(point.at.name(), point);
}

}  // namespace shardmark
