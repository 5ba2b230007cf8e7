// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include <core/plan/price/collective_time.hpp>
#include <miniapp/measure/deepspeed_comms_log.hpp>
#include <miniapp/measure/timings.hpp>

namespace shardmark {
namespace {

// Rounds halves to even, as Python does.
double trimmed_mean(std::vector<double> values) {
  std::ranges::sort(values);
  const auto cut =
      static_cast<std::ptrdiff_t>(std::nearbyint(0.1 * static_cast<double>(values.size())));
  const auto first = values.begin() + cut, last = values.end() - cut;
  if (first >= last) return 0;
  return std::accumulate(first, last, 0.0) / static_cast<double>(last - first);
}

std::int64_t message_bytes(const CollectiveRecord& r, int world) {
  return r.elems * dtype_bytes(r.dtype) / (r.op == Op::all_gather ? world : 1);
}

// DeepSpeed's bandwidths in Gbit/s, for a message of so many bytes in so many ms.
struct Rates {
  double tput = 0, busbw = 0;
};

Rates rates_of(Op op, std::int64_t bytes, double ms, int world) {
  const double ranks = world;
  const double rate = ms > 0 ? static_cast<double>(bytes) / ms * 8 / 1e6 : 0;
  switch (op) {
    case Op::all_gather:
    case Op::reduce_scatter: return {rate * ranks, rate * (ranks - 1)};
    case Op::all_to_all: return {rate, rate * (ranks - 1) / ranks};
    case Op::all_reduce: return {rate * 2, rate * 2 * (ranks - 1) / ranks};
    default: return {rate, rate};
  }
}

bool is_logged(Op op, const DsLogSpec& spec) {
  const auto& ops = spec.comms_ops;
  return spec.comms_all || std::find(ops.begin(), ops.end(), deepspeed_name(op)) != ops.end();
}

// A call that is logged, and the time for which it occupied its lane.
struct Call {
  const CollectiveRecord& record;
  std::int64_t bytes;
  double ms;
};

template<class Visit>
void for_each_call(const std::vector<CollectiveRecord>& records, int world, const DsLogSpec& spec,
                   Visit visit) {
  const auto begins = lane_begins_ns(records);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const CollectiveRecord& r = records[i];
    if (is_logged(r.op, spec))
      visit(Call{r, message_bytes(r, world), static_cast<double>(r.done_ns - begins[i]) * 1e-6});
  }
}

struct Calls {
  std::vector<double> ms, tput, busbw, nccl;
};

}  // namespace

std::string deepspeed_name(Op op) {
  switch (op) {
    case Op::all_gather: return "all_gather_into_tensor";
    case Op::reduce_scatter: return "reduce_scatter_tensor";
    case Op::all_to_all: return "all_to_all_single";
    default: return std::string(to_string(op));
  }
}

std::vector<CommsLogOp> comms_log(const std::vector<CollectiveRecord>& records, int world,
                                  const DsLogSpec& spec) {
  std::vector<Op> order;
  std::map<Op, std::map<std::int64_t, Calls>> sizes;
  for_each_call(records, world, spec, [&](const Call& call) {
    const CollectiveRecord& r = call.record;
    if (!sizes.contains(r.op)) order.push_back(r.op);
    Calls& calls = sizes[r.op][call.bytes];
    const Rates rates = rates_of(r.op, call.bytes, call.ms, world);
    const auto whole = static_cast<double>(r.elems * dtype_bytes(r.dtype));
    calls.ms.push_back(call.ms);
    calls.tput.push_back(rates.tput);
    calls.busbw.push_back(rates.busbw);
    calls.nccl.push_back(call.ms > 0 ? whole / call.ms / 1e6 * ring_share(r.op, world) : 0);
  });
  std::vector<CommsLogOp> log;
  for (const Op op : order) {
    CommsLogOp& entry = log.emplace_back(CommsLogOp{deepspeed_name(op), {}});
    for (const auto& [bytes, calls] : sizes[op])
      entry.rows.push_back({bytes, static_cast<std::int64_t>(calls.ms.size()),
                            std::accumulate(calls.ms.begin(), calls.ms.end(), 0.0),
                            trimmed_mean(calls.ms), trimmed_mean(calls.tput),
                            trimmed_mean(calls.busbw), trimmed_mean(calls.nccl)});
  }
  return log;
}

std::string comms_calls_text(const std::vector<CollectiveRecord>& records, int world,
                             const DsLogSpec& spec) {
  std::string text;
  for_each_call(records, world, spec, [&](const Call& call) {
    const Rates rates = rates_of(call.record.op, call.bytes, call.ms, world);
    text += fmt::format(
        "comm op: {} | time (ms): {:.2f} | msg size: {} | algbw (Gbps): {:.2f} | busbw (Gbps): "
        "{:.2f}\n",
        deepspeed_name(call.record.op), call.ms, message_size(call.bytes), rates.tput, rates.busbw);
  });
  return text;
}

std::string message_size(std::int64_t bytes) {
  if (bytes == 0) return "0B";
  constexpr const char* units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024; ++unit) size /= 1024;
  std::string digits = fmt::format("{}", std::nearbyint(size * 100) / 100);
  if (digits.find('.') == std::string::npos) digits += ".0";  // as Python prints floats
  return digits + " " + units[unit];
}

std::string comms_log_text(const std::vector<CommsLogOp>& log) {
  std::string text = fmt::format("{:<20}{:<20}{:<20}{:<20}{:<20}{:<20}{:<20}{}\n", "Comm. Op",
                                 "Message Size", "Count", "Total Latency(ms)", "Avg Latency(ms)",
                                 "tput_avg (Gbps)", "busbw_avg (Gbps)", "nccl-tests busbw (GB/s)");
  for (const CommsLogOp& op : log) {
    text += op.name + "\n";
    for (const CommsLogRow& r : op.rows)
      text += fmt::format("{:<20}{:<20}{:<20}{:<20.2f}{:<20.2f}{:<20.2f}{:<20.2f}{:.2f}\n", " ",
                          message_size(r.message_bytes), r.count, r.total_ms, r.average_ms,
                          r.tput_gbps, r.busbw_gbps, r.nccl_gb_s);
  }
  return text;
}

}  // namespace shardmark
