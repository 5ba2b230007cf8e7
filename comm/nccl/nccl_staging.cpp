// SPDX-License-Identifier: Apache-2.0

#include <comm/collective.hpp>
#include <comm/mpi/mpi_library.hpp>
#include <comm/nccl/nccl_check.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <comm/nccl/nccl_staging.hpp>

namespace shardmark {

std::unique_ptr<Communicator> stage_through_host(std::unique_ptr<Communicator> inner,
                                                 const CommOptions& options) {
  return std::make_unique<StagingCommunicator>(std::move(inner), options);
}

StagingCommunicator::StagingCommunicator(std::unique_ptr<Communicator> inner,
                                         const CommOptions& options)
    : ForwardingCommunicator(std::move(inner)),
      options_(options),
      stream_(static_cast<device::Stream>(options.compute_stream)) {}

StagingCommunicator::~StagingCommunicator() {
  for (const Pinned& p : all_)
    report_runtime(device::free_pinned(p.data), "the release of pinned memory");
}

// Takes the smallest spare buffer that is large enough, or a new one. A schedule asks for the same
// sizes in every step, so the spare buffers soon suffice.
StagingCommunicator::Pinned StagingCommunicator::take(std::int64_t bytes) {
  const auto needed = static_cast<std::size_t>(bytes);
  if (needed == 0) return {nullptr, 0};
  auto best = spare_.end();
  for (auto it = spare_.begin(); it != spare_.end(); ++it)
    if (it->bytes >= needed && (best == spare_.end() || it->bytes < best->bytes)) best = it;
  if (best != spare_.end()) {
    const Pinned p = *best;
    spare_.erase(best);
    return p;
  }
  Pinned p{nullptr, needed};
  check_runtime(device::allocate_pinned(&p.data, needed), "pinned memory");
  all_.push_back(p);
  return p;
}

bool StagingCommunicator::direct(const Collective& c) const {
  return options_.mpi.device_buffers && backend() == Backend::mpi &&
         done_by_mpi_alone(c, rank(), size(), options_);
}

Ticket StagingCommunicator::start(const Collective& c) {
  validate(c, rank(), size());
  if (direct(c)) {
    SHARDMARK_RUNTIME(StreamSynchronize, stream_);  // MPI does not know about streams
    open_.push_back({inner().start(c), c, {}, {}, {}});
    return open_.back().ticket;
  }
  const std::int64_t size_bytes = dtype_bytes(c.dtype);
  const std::int64_t sent = c.elems > 0 ? sent_elems(c, rank(), size()) * size_bytes : 0;
  Open open{0, c, take(sent), take(received_elems(c, rank(), size()) * size_bytes),
            take(c.scratch_bytes)};
  if (sent > 0)
    SHARDMARK_RUNTIME(MemcpyAsync, open.send.data, c.send, static_cast<std::size_t>(sent),
                      SHARDMARK_GPU(MemcpyDeviceToHost), stream_);
  SHARDMARK_RUNTIME(StreamSynchronize, stream_);
  Collective on_host = c;
  on_host.send = open.send.data;
  on_host.recv = open.recv.data;
  on_host.scratch = open.scratch.data;
  open.ticket = inner().start(on_host);
  open_.push_back(open);
  return open.ticket;
}

void StagingCommunicator::deliver(const Open& open) {
  const Collective& c = open.c;
  const std::int64_t bytes = received_elems(c, rank(), size()) * dtype_bytes(c.dtype);
  if (bytes > 0 && open.recv.data != nullptr) {
    SHARDMARK_RUNTIME(MemcpyAsync, c.recv, open.recv.data, static_cast<std::size_t>(bytes),
                      SHARDMARK_GPU(MemcpyHostToDevice), stream_);
    SHARDMARK_RUNTIME(StreamSynchronize, stream_);
  }
  for (const Pinned& p : {open.send, open.recv, open.scratch})
    if (p.data != nullptr) spare_.push_back(p);
}

void StagingCommunicator::deliver_done() {
  while (!open_.empty() && inner().test(open_.front().ticket)) {
    deliver(open_.front());
    open_.pop_front();
  }
}

bool StagingCommunicator::test(Ticket ticket) {
  deliver_done();
  return inner().test(ticket);
}

void StagingCommunicator::wait(Ticket ticket) {
  inner().wait(ticket);
  deliver_done();
}

void StagingCommunicator::progress() {
  inner().progress();
  deliver_done();
}

std::unique_ptr<Communicator> StagingCommunicator::split(int color, int key) {
  return std::make_unique<StagingCommunicator>(inner().split(color, key), options_);
}

}  // namespace shardmark
