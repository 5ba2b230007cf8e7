// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/write/state_writer.hpp>

namespace shardmark {

void place_state(Program& program, State state, int slot, std::int64_t at,
                 std::span<const FlatParam> layout, std::int64_t first, std::int64_t elems) {
  for (const FlatParam& f : layout) {
    const Param& p = program.model.params[f.param];
    const std::int64_t from = std::max(first, f.offset);
    const std::int64_t to = std::min(first + elems, f.offset + p.elems);
    if (from < to)
      program.states.push_back(
          {state, slot, at + from - first, p.first_elem + (from - f.offset), to - from});
  }
}

void init_params(PlanWriter& writer, const Program& program, int slot, std::size_t first_piece) {
  std::int64_t covered = 0;
  std::vector<StatePiece> pieces;
  for (const StatePiece& s : std::span(program.states).subspan(first_piece)) {
    if (s.state != State::param || s.slot != slot) continue;
    pieces.push_back(s);
    covered += s.elems;
  }
  if (covered < writer[slot].elems) writer.compute(Kernel::zero, {writer.write(slot)});
  for (const StatePiece& s : pieces) {
    const auto& params = program.model.params;
    const auto after = std::ranges::upper_bound(params, s.first_elem, {}, &Param::first_elem);
    const int param = static_cast<int>(after - params.begin()) - 1;
    Event& e =
        writer.compute(Kernel::init_param, {writer.write(slot, s.offset, s.elems)}, {&param, 1});
    e.first = s.first_elem - params[param].first_elem;
  }
}

void acquire_zeroed(PlanWriter& writer, int slot) {
  writer.acquire(slot);
  writer.compute(Kernel::zero, {writer.write(slot)});
}

void write_integers(PlanWriter& writer, const Program& program, const std::string& name,
                    Dtype dtype, Op op, std::int64_t elems) {
  const int slot = writer.slot(name, Category::workspace, dtype, elems);
  acquire_zeroed(writer, slot);
  const std::int64_t in = op == Op::all_gather ? elems / program.world : elems;
  const std::int64_t at = op == Op::all_gather ? in * program.rank : 0;
  writer.collective(op, op == Op::all_reduce ? Reduction::sum : Reduction::none,
                    writer.read(slot, at, in), writer.write(slot), {}, of_all,
                    op == Op::broadcast ? 0 : -1);
  writer.release(slot);
}

}  // namespace shardmark
