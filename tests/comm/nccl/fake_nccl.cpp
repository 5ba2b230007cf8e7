// SPDX-License-Identifier: Apache-2.0
// NCCL's functions in the stand-in. Ranks find each other through the rank that made the unique id.
// In a collective each rank sends a message to every rank that needs its data, when the stream
// reaches the collective; sums are computed in rank order.
#include <cstring>
#include <deque>
#include <map>
#include <memory>

#include <mpi.h>

#include <comm/local_reduction.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <core/plan/deck/types.hpp>
#include <tests/comm/nccl/fake_device.hpp>

namespace {

using namespace shardmark;
using namespace shardmark::test;

using Bytes = std::vector<std::byte>;

struct Id {
  int root, tag;  // the root is the world rank that made the id
};
constexpr int hello_offset = 1 << 20, table_offset = 2 << 20;  // added to the tag

struct Message {
  Bytes data;
  MPI_Request request = MPI_REQUEST_NULL;
  bool done() {
    int flag = 0;
    SHARDMARK_MPI(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    return flag != 0;
  }
};

// Messages are kept until the end of the process, because a lost peer may never receive them.
Message& post(bool send, int peer, int tag, Bytes data) {
  static auto& kept = *new std::deque<Message>;
  Message& m = kept.emplace_back(Message{std::move(data)});
  const int count = static_cast<int>(m.data.size());
  if (send)
    SHARDMARK_MPI(MPI_Isend(m.data.data(), count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &m.request));
  else
    SHARDMARK_MPI(MPI_Irecv(m.data.data(), count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &m.request));
  return m;
}

Bytes bytes_of(const void* data, std::size_t size) {
  const auto* first = static_cast<const std::byte*>(data);
  return {first, first + size};
}

struct Comm {
  int rank = 0, size = 1;
  Id id{};
  std::vector<int> world;  // the world rank of each rank; empty until it is known
  std::vector<Message*> hellos;
  Message* table = nullptr;
  int busy = 0;
  std::function<void()> pending;  // the effect of the last call, due when `busy` reaches 0
  int open = 0;                   // the number of collectives on streams
  bool finalized = false, gone = false;
};

std::map<ncclComm_t, std::shared_ptr<Comm>>& comms() {
  static std::map<ncclComm_t, std::shared_ptr<Comm>> all;
  return all;
}

int world_rank() {
  int rank = 0;
  SHARDMARK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  return rank;
}

void greet(Comm& c) {
  const int hello[2] = {c.rank, world_rank()};
  post(true, c.id.root, c.id.tag + hello_offset, bytes_of(hello, sizeof hello));
  if (c.rank == 0)
    for (int r = 0; r < c.size; ++r)
      c.hellos.push_back(
          &post(false, MPI_ANY_SOURCE, c.id.tag + hello_offset, Bytes(sizeof hello)));
  c.table = &post(false, c.id.root, c.id.tag + table_offset,
                  Bytes(static_cast<std::size_t>(c.size) * sizeof(int)));
}

bool together(Comm& c) {
  if (!c.world.empty()) return true;
  if (!c.hellos.empty()) {
    for (Message* m : c.hellos)
      if (!m->done()) return false;
    std::vector<int> world(static_cast<std::size_t>(c.size));
    for (Message* m : c.hellos) {
      int hello[2];
      std::memcpy(hello, m->data.data(), sizeof hello);
      world[static_cast<std::size_t>(hello[0])] = hello[1];
    }
    for (int peer : world)
      post(true, peer, c.id.tag + table_offset, bytes_of(world.data(), world.size() * sizeof(int)));
    c.hellos.clear();
  }
  if (!c.table->done()) return false;
  c.world.resize(static_cast<std::size_t>(c.size));
  std::memcpy(c.world.data(), c.table->data.data(), c.table->data.size());
  return true;
}

ncclResult_t state(Comm& c) {
  if (fake().async_error != ncclSuccess) return fake().async_error;
  pump();
  if (!together(c) || (c.busy > 0 && c.busy-- > 0)) return ncclInProgress;
  if (c.pending) std::exchange(c.pending, nullptr)();
  return c.finalized && c.open > 0 ? ncclInProgress : ncclSuccess;
}

// Makes a call. It is refused while the last call is in progress, because NCCL leaves that
// undefined.
ncclResult_t call(Comm& c, const FakeCall& seen, std::function<void()> effect) {
  if (fake().failing_call == seen.name) return ncclSystemError;
  if (c.busy > 0 || c.pending || c.finalized) return ncclInvalidUsage;
  fake().calls.push_back(seen);
  c.busy = fake().busy_polls;
  c.pending = std::move(effect);
  return c.busy > 0 ? ncclInProgress : state(c);
}

Dtype dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32: return Dtype::fp32;
    case ncclBfloat16: return Dtype::bf16;
    case ncclFloat16: return Dtype::fp16;
    case ncclFloat64: return Dtype::fp64;
    case ncclUint8: return Dtype::uint8;
    case ncclInt8: return Dtype::int8;
    case ncclInt64: return Dtype::int64;
    default: return Dtype::int32;
  }
}

// One collective in progress.
struct Exchange {
  std::shared_ptr<Comm> comm;
  FakeCall call;
  std::size_t sent, part;  // the elements that a rank sends, and those in a receiver's result
  bool begun = false;
  std::vector<Message*> rows = {}, sends = {};

  std::size_t elem() const { return static_cast<std::size_t>(dtype_bytes(dtype_of(call.type))); }
  bool gives(int rank) const { return call.name != "ncclBroadcast" || rank == call.root; }
  bool takes(int rank) const { return call.name != "ncclReduce" || rank == call.root; }

  void begin() {
    begun = true;
    for (int r = 0; r < comm->size; ++r) {
      const int peer = comm->world[static_cast<std::size_t>(r)];
      if (gives(comm->rank) && takes(r))
        sends.push_back(&post(true, peer, comm->id.tag, bytes_of(call.send, sent * elem())));
      if (gives(r) && takes(comm->rank))
        rows.push_back(&post(false, peer, comm->id.tag, Bytes(sent * elem())));
    }
  }

  void deliver() {
    if (!takes(comm->rank)) return;
    auto* out = static_cast<std::byte*>(call.recv);
    if (call.op < 0) {
      for (Message* row : rows) {
        std::memcpy(out, row->data.data(), sent * elem());
        out += sent * elem();
      }
      return;
    }
    const std::size_t skip = part < sent ? static_cast<std::size_t>(comm->rank) * part : 0;
    std::vector<const void*> parts;
    for (Message* row : rows) parts.push_back(row->data.data() + skip * elem());
    combine_in_rank_order(dtype_of(call.type), call.op == ncclMax ? Reduction::max : Reduction::sum,
                          parts.data(), comm->size, out, static_cast<std::int64_t>(part));
  }

  bool done() {
    if (comm->gone || !fake().moves_data) return true;
    if (!begun) begin();
    for (Message* m : rows)
      if (!m->done()) return false;
    for (Message* m : sends)
      if (!m->done()) return false;
    deliver();
    return true;
  }
};

ncclResult_t collective(const char* name, const void* send, void* recv, std::size_t count,
                        ncclDataType_t type, int op, int root, ncclComm_t handle,
                        device::Stream stream) {
  const std::shared_ptr<Comm> c = comms().at(handle);
  const FakeCall seen{name, send, recv, count, type, op, root};
  const bool scatters = seen.name == "ncclReduceScatter";
  auto exchange = std::make_shared<Exchange>(
      Exchange{c, seen, scatters ? count * static_cast<std::size_t>(c->size) : count, count});
  return call(*c, seen, [=] {
    ++c->open;
    enqueue(stream, [=] {
      if (!exchange->done()) return false;
      --c->open;
      return true;
    });
  });
}

// The sends and receives between ncclGroupStart and ncclGroupEnd: each pair of ranks exchanges at
// most one message.
struct PartExchange {
  struct Part {
    void* at;
    std::size_t bytes;
    int peer;
  };
  std::shared_ptr<Comm> comm = nullptr;
  device::Stream stream = nullptr;
  FakeCall call{};
  std::vector<Part> gives = {}, takes = {};
  bool begun = false;
  std::vector<Message*> received = {}, sent = {};

  void begin() {
    begun = true;
    const auto peer = [&](const Part& p) { return comm->world[static_cast<std::size_t>(p.peer)]; };
    for (const Part& p : gives)
      sent.push_back(&post(true, peer(p), comm->id.tag, bytes_of(p.at, p.bytes)));
    for (const Part& p : takes)
      received.push_back(&post(false, peer(p), comm->id.tag, Bytes(p.bytes)));
  }

  bool done() {
    if (comm->gone || !fake().moves_data) return true;
    if (!begun) begin();
    for (const auto* messages : {&received, &sent})
      for (Message* m : *messages)
        if (!m->done()) return false;
    for (std::size_t i = 0; i < takes.size(); ++i)
      std::memcpy(takes[i].at, received[i]->data.data(), takes[i].bytes);
    return true;
  }
};

std::shared_ptr<PartExchange>& open_group() {
  static std::shared_ptr<PartExchange> group;
  return group;
}

// Remembers a send or receive of the open group. The call that the tests see has the addresses of
// the first of each.
ncclResult_t in_group(bool send, void* at, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t handle, device::Stream stream) {
  if (!open_group()) return ncclInvalidUsage;
  PartExchange& group = *open_group();
  group.comm = comms().at(handle), group.stream = stream;
  const auto bytes = count * static_cast<std::size_t>(dtype_bytes(dtype_of(type)));
  auto& parts = send ? group.gives : group.takes;
  if (group.gives.empty() && group.takes.empty())
    group.call = {"ncclGroupEnd", nullptr, nullptr, count, type, -1, -1};
  if (parts.empty() && send) group.call.send = at;
  if (parts.empty() && !send) group.call.recv = at;
  parts.push_back({at, bytes, peer});
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGroupStart() {
  open_group() = std::make_shared<PartExchange>();
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  const auto group = std::exchange(open_group(), nullptr);
  const std::shared_ptr<Comm> c = group->comm;
  return call(*c, group->call, [=] {
    ++c->open;
    enqueue(group->stream, [=] {
      if (!group->done()) return false;
      --c->open;
      return true;
    });
  });
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, device::Stream stream) {
  return in_group(true, const_cast<void*>(data), count, type, peer, comm, stream);
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      device::Stream stream) {
  return in_group(false, data, count, type, peer, comm, stream);
}

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError   ? "remote process exited or there was a network error"
         : result == ncclSystemError ? "unhandled system error"
                                     : "another error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "said by the stand-in";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (fake().failing_call == "ncclGetUniqueId") return ncclSystemError;
  static int made = 0;
  const Id mine{world_rank(), world_rank() * 4096 + ++made};
  std::memcpy(id, &mine, sizeof mine);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (fake().failing_call == "ncclCommInitRankConfig") return ncclSystemError;
  if (config->blocking != 0) return ncclInvalidArgument;  // the stand-in is always non-blocking
  auto c = std::make_shared<Comm>();
  c->rank = rank, c->size = size;
  std::memcpy(&c->id, &id, sizeof c->id);
  c->busy = fake().busy_polls;
  greet(*c);
  *handle = reinterpret_cast<ncclComm_t>(c.get());
  comms()[*handle] = c;
  ++fake().comms;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  *error = state(*comms().at(handle));
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  Comm& c = *comms().at(handle);
  const ncclResult_t result =
      call(c, {"ncclCommFinalize", nullptr, nullptr, 0, ncclInt8, -1, -1}, {});
  c.finalized = true;
  ++fake().finalized;
  return result;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (!comms().at(handle)->finalized) return ncclInvalidUsage;
  comms().erase(handle);
  --fake().comms, ++fake().destroyed;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  comms().at(handle)->gone = true;
  comms().erase(handle);
  --fake().comms, ++fake().aborted;
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, device::Stream stream) {
  return collective("ncclAllGather", send, recv, count, type, -1, -1, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, device::Stream stream) {
  return collective("ncclReduceScatter", send, recv, count, type, op, -1, comm, stream);
}
ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, device::Stream stream) {
  return collective("ncclAllReduce", send, recv, count, type, op, -1, comm, stream);
}
ncclResult_t ncclReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, device::Stream stream) {
  return collective("ncclReduce", send, recv, count, type, op, root, comm, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, device::Stream stream) {
  return collective("ncclBroadcast", send, recv, count, type, -1, root, comm, stream);
}

}  // extern "C"
