// SPDX-License-Identifier: Apache-2.0
// What all schedules do with model states at start-up: record where their parts lie, and fill them.
#pragma once

#include <span>
#include <string>

#include <core/plan/partition/flat_param.hpp>
#include <core/plan/plan.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// Records that `slot` holds elements [first, first + elems) of the flat buffer that `layout`
/// describes, from the slot's element `at` on.
void place_state(Program& program, State state, int slot, std::int64_t at,
                 std::span<const FlatParam> layout, std::int64_t first, std::int64_t elems);

/// Writes the first values of State::param into `slot`, which is alive. Elements that no parameter
/// covers become zero. All pieces of `slot` come from `first_piece` on in Program::states.
void init_params(PlanWriter& writer, const Program& program, int slot, std::size_t first_piece);

/// Acquires `slot` and clears it.
void acquire_zeroed(PlanWriter& writer, int slot);

/// Issues a collective of `elems` integers of the world that nothing here reads: a buffer of zeros
/// has their size. A broadcast comes from rank 0, and each rank gives its part to an all_gather.
void write_integers(PlanWriter& writer, const Program& program, const std::string& name,
                    Dtype dtype, Op op, std::int64_t elems);

}  // namespace shardmark
