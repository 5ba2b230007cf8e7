// SPDX-License-Identifier: Apache-2.0

#include <comm/mpi/mpi_calls.hpp>

namespace shardmark {
namespace {

RouteKind kind_of(const Collective& c, int size, Reductions reductions) {
  if (size == 1 || (c.elems == 0 && c.op != Op::barrier)) return RouteKind::local;
  const bool ours = is_reduction(c.op) && sums_in_rank_order(c.dtype, reductions);
  switch (c.op) {
    case Op::barrier: return RouteKind::barrier;
    case Op::all_gather: return RouteKind::all_gather;
    case Op::all_to_all:
      return c.parts != nullptr ? RouteKind::all_to_all_parts : RouteKind::all_to_all;
    case Op::broadcast: return RouteKind::broadcast;
    case Op::all_reduce: return ours ? RouteKind::ordered_all_reduce : RouteKind::all_reduce;
    case Op::reduce: return ours ? RouteKind::ordered_reduce : RouteKind::reduce;
    case Op::reduce_scatter:
      return ours ? RouteKind::ordered_reduce_scatter : RouteKind::reduce_scatter;
    default: return RouteKind::local;
  }
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

Route route_of(const Collective& c, int size, const CommOptions& options) {
  Route route;
  route.kind = kind_of(c, size, options.reductions);
  if (route.kind == RouteKind::local) return route;
  if (route.kind == RouteKind::barrier) {
    route.pieces = 1;
    return route;
  }
  const bool by_shard = has_parts(c.op) || route.kind == RouteKind::ordered_all_reduce;
  route.part_elems = by_shard ? divide_up(c.elems, size) : c.elems;
  const std::int64_t piece_bytes = route.kind == RouteKind::all_gather
                                       ? options.mpi.gather_bytes / size
                                       : options.mpi.piece_bytes;
  route.piece_elems = piece_elems(c.op, c.dtype, c.elems, size, options.reductions,
                                  options.mpi.staging_cap_bytes, piece_bytes);
  route.pieces = divide_up(route.part_elems, route.piece_elems);
  route.scratch_bytes =
      collective_scratch_bytes(c.op, c.dtype, c.elems, size, options.reductions,
                               options.mpi.staging_cap_bytes, options.mpi.piece_bytes);
  if (route.scratch_bytes > 0)
    route.areas =
        static_cast<int>(route.scratch_bytes / (route.piece_elems * size * dtype_bytes(c.dtype)));
  return route;
}

}  // namespace shardmark
