// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <random>
#include <string_view>

#include <fmt/core.h>

#include <miniapp/ranks/peers.hpp>

namespace shardmark {

namespace {
constexpr std::string_view lane_name = "driver";
}

void Peers::barrier() {
  run(comm_, {.op = Op::barrier, .name = lane_name});
}

void Peers::gather_bytes(const void* mine, void* all, std::int64_t bytes) {
  run(comm_, {.op = Op::all_gather,
              .dtype = Dtype::uint8,
              .elems = bytes * size(),
              .send = mine,
              .recv = all,
              .name = lane_name});
}

std::vector<std::string> Peers::gather(const std::string& mine) {
  const auto lengths = gather(static_cast<std::int64_t>(mine.size()));
  const auto longest = static_cast<std::size_t>(*std::ranges::max_element(lengths));
  std::vector<char> padded(longest, '\0');
  std::copy(mine.begin(), mine.end(), padded.begin());
  const std::vector<char> all = gather(padded);
  std::vector<std::string> strings;
  for (std::size_t r = 0; r < lengths.size(); ++r)
    strings.emplace_back(all.data() + r * longest, static_cast<std::size_t>(lengths[r]));
  return strings;
}

std::string Peers::first_text(const std::string& mine) {
  const std::vector<std::string> all = gather(mine);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty()) return fmt::format("rank {}: {}", r, all[r]);
  return {};
}

std::string Peers::broadcast(const std::string& mine, int rank) {
  const auto send = [&](void* data, std::int64_t bytes) {
    run(comm_, {.op = Op::broadcast,
                .dtype = Dtype::uint8,
                .root = rank,
                .elems = bytes,
                .send = data,
                .recv = data,
                .name = lane_name});
  };
  auto length = static_cast<std::int64_t>(mine.size());
  send(&length, sizeof length);
  std::string text =
      this->rank() == rank ? mine : std::string(static_cast<std::size_t>(length), '\0');
  send(text.data(), length);
  return text;
}

Ticket Peers::start_reduction(double* values, std::int64_t count, Reduction reduction) {
  return comm_.start({.op = Op::all_reduce,
                      .dtype = Dtype::fp64,
                      .reduction = reduction,
                      .elems = count,
                      .send = values,
                      .recv = values,
                      .name = lane_name});
}

Ticket Peers::start_max(double& value) {
  return start_reduction(&value, 1, Reduction::max);
}

void Peers::max(std::vector<double>& values) {
  wait(start_reduction(values.data(), static_cast<std::int64_t>(values.size()), Reduction::max));
}

void Peers::sum(std::vector<double>& values) {
  wait(start_reduction(values.data(), static_cast<std::int64_t>(values.size()), Reduction::sum));
}

void Peers::max(std::vector<double>& values, const std::vector<int>& group) {
  if (group.empty()) return max(values);
  const auto lane = comm_.split(group.front(), rank());
  Peers(*lane).max(values);
}

void Peers::throw_if_any_failed(const Failure& mine) {
  const auto statuses = gather(static_cast<int>(mine.status));
  for (int r = 0; r < size(); ++r)
    if (statuses[r] != 0)
      throw AgreedError(static_cast<ExitStatus>(statuses[r]),
                        r == rank() ? mine.what : std::string{});
}

std::uint64_t shared_seed(Peers& peers) {
  std::random_device device;
  const std::uint64_t mine = static_cast<std::uint64_t>(device()) << 32 | device();
  return peers.gather(mine).front();
}

}  // namespace shardmark
