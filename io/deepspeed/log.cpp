// SPDX-License-Identifier: Apache-2.0
// What a DeepSpeed config asks a run to log: comms_logger, wall_clock_breakdown, steps_per_print.
#include <io/deepspeed/config.hpp>

namespace shardmark {
namespace {

// DeepSpeed prints the breakdown after each step, whatever steps_per_print says. Here
// steps_per_print also applies to the breakdown, because that is what people who set both expect.
std::int64_t wall_clock_every(const DsConfig& c, const Origin& origin) {
  if (!c.top.flag("wall_clock_breakdown")) return 0;
  const Json every = c.top.at("steps_per_print");
  if (every.is_null()) return 1;
  const auto steps = as_integer(every);
  if (!steps || *steps < 1)
    origin.refuse(
        c.top.key("steps_per_print"), every,
        "must be an integer, at least 1: after how many steps wall_clock_breakdown prints");
  return *steps;
}

}  // namespace

DsLogSpec read_deepspeed_log(const Origin& origin, const Json& config) {
  // A copy, because read_deepspeed has already recorded the findings.
  Origin unused_findings = origin;
  const DsConfig c = parse_deepspeed(unused_findings, config);
  DsLogSpec log;
  log.wall_clock_every = wall_clock_every(c, origin);
  log.comms = c.comms_logger.flag("enabled");
  log.comms_all = c.comms_logger.flag("prof_all");
  log.comms_verbose = c.comms_logger.flag("verbose");
  for (const Json& op : c.comms_logger.at("prof_ops")) {
    if (!op.is_string())
      origin.refuse(c.comms_logger.key("prof_ops"), c.comms_logger.at("prof_ops"),
                    "must be a list of names, as in [\"all_reduce\"]");
    log.comms_ops.push_back(op);
  }
  return log;
}

}  // namespace shardmark
