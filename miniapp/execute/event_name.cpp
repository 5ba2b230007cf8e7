// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <miniapp/execute/event_name.hpp>

namespace shardmark {

bool moves_data(const Event& e) {
  switch (e.kernel) {
    case Kernel::convert:
    case Kernel::interleave:
    case Kernel::rearrange:
    case Kernel::quantize:
    case Kernel::dequantize:
    case Kernel::quantize_int4:
    case Kernel::reduce_int4:
    case Kernel::dequantize_int4:
    case Kernel::sum_parts:
    case Kernel::accumulate:
    case Kernel::zero: return true;
    default: return e.op == Op::copy;
  }
}

std::string event_name(const Program& p, const Event& e) {
  if (e.op == Op::acquire || e.op == Op::release)
    return fmt::format("{} {}", to_string(e.op), p.slots[e.slot].name);
  std::string what(e.op == Op::copy ? to_string(e.op) : to_string(e.kernel));
  if (e.module >= 0) return what + " " + p.model.modules[e.module].name;
  if (e.operands.count == 0) return what;
  const Operand& first = p.operands[e.operands.first];
  return what + " " + p.slots[first.slot].name;
}

}  // namespace shardmark
