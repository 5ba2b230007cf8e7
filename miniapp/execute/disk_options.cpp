// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <io/files/page_buffer.hpp>
#include <miniapp/execute/disk_options.hpp>

namespace shardmark {

DiskOptions disk_options(const Deck& deck) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const AioSpec& aio = deck.zero.aio;
  const std::int64_t step = aio.block_size * std::min<std::int64_t>(aio.queue_depth, 1024);
  DiskOptions options;
  options.folder = deck.zero.offload_optimizer.nvme_path;
  options.param_folder = deck.zero.offload_param.nvme_path;
  options.step_bytes = std::clamp(step / page_bytes * page_bytes, page_bytes, most);
  options.timeout_s = deck.comm.timeout_s;
  return options;
}

}  // namespace shardmark
