// SPDX-License-Identifier: Apache-2.0
#include <comm/collective.hpp>
#include <comm/nccl/divide.hpp>
#include <comm/nccl/nccl_calls.hpp>
#include <comm/nccl/nccl_check.hpp>

namespace shardmark {

ncclDataType_t nccl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32: return ncclFloat32;
    case Dtype::bf16: return ncclBfloat16;
    case Dtype::fp16: return ncclFloat16;
    case Dtype::fp64: return ncclFloat64;
    case Dtype::uint8: return ncclUint8;
    case Dtype::int8: return ncclInt8;
    case Dtype::int32: return ncclInt32;
    case Dtype::int64: return ncclInt64;
  }
  return ncclNumTypes;
}

ncclRedOp_t nccl_op(Reduction reduction) {
  return reduction == Reduction::max ? ncclMax : ncclSum;
}

namespace {

// Every rank exchanges a part with every rank, itself included, but no empty ones. NCCL makes one
// call of the group.
void exchange_parts(const Collective& c, const NcclLane& lane, ncclDataType_t type) {
  SHARDMARK_NCCL(ncclGroupStart());
  for (int r = 0; r < lane.size; ++r) {
    const Part from = sent_part(c, r, lane.size), into = received_part(c, r, lane.size);
    if (from.elems > 0)
      SHARDMARK_NCCL(ncclSend(offset(c.send, from.first, c.dtype),
                              static_cast<std::size_t>(from.elems), type, r, lane.comm,
                              lane.stream));
    if (into.elems > 0)
      SHARDMARK_NCCL(ncclRecv(offset(c.recv, into.first, c.dtype),
                              static_cast<std::size_t>(into.elems), type, r, lane.comm,
                              lane.stream));
  }
  SHARDMARK_NCCL(ncclGroupEnd());
}

}  // namespace

void call_nccl(const Collective& c, const NcclLane& lane, Moved& moved) {
  if (c.op == Op::barrier) {
    SHARDMARK_NCCL(
        ncclAllReduce(lane.word, lane.word, 1, ncclInt32, ncclMax, lane.comm, lane.stream));
    return;
  }
  if (c.elems == 0) return;
  const ncclDataType_t type = nccl_type(c.dtype);
  const ncclRedOp_t op = nccl_op(c.reduction);
  const auto whole = static_cast<std::size_t>(c.elems);
  const auto shard = static_cast<std::size_t>(c.elems / lane.size);
  switch (c.op) {
    case Op::all_gather:
      SHARDMARK_NCCL(ncclAllGather(c.send, c.recv, shard, type, lane.comm, lane.stream));
      break;
    case Op::reduce_scatter:
      SHARDMARK_NCCL(ncclReduceScatter(c.send, c.recv, shard, type, op, lane.comm, lane.stream));
      break;
    case Op::all_reduce:
      SHARDMARK_NCCL(ncclAllReduce(c.send, c.recv, whole, type, op, lane.comm, lane.stream));
      break;
    case Op::reduce:
      SHARDMARK_NCCL(ncclReduce(c.send, c.recv, whole, type, op, c.root, lane.comm, lane.stream));
      break;
    case Op::all_to_all: exchange_parts(c, lane, type); break;
    case Op::broadcast:
      SHARDMARK_NCCL(ncclBroadcast(c.send, c.recv, whole, type, c.root, lane.comm, lane.stream));
      break;
    default: return;  // validate() accepts no other operation
  }
  moved.send(sent_elems(c, lane.rank, lane.size), c.dtype);
  moved.receive(received_elems(c, lane.rank, lane.size), c.dtype);
}

void finish_on_stream(const Collective& c, const NcclLane& lane) {
  if (c.reduction != Reduction::average || lane.size == 1) return;
  const std::int64_t elems = received_elems(c, lane.rank, lane.size);
  if (elems > 0) divide_on_stream(lane.stream, c.dtype, c.recv, elems, lane.size);
}

}  // namespace shardmark
