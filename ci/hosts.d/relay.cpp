// SPDX-License-Identifier: Apache-2.0
// hosts_relay LATENCY_US LOSS PID:PORT… carries frames between the device eth0 in the network
// namespace of each process and the device PORT of its own namespace; both are TAP devices. A frame
// from a host is lost with probability LOSS, or it arrives LATENCY_US microseconds later; frames to
// a host pass at once. So a packet between two hosts is delayed and risks loss once. The relay
// stands in for the queueing discipline `netem`, which many kernels lack.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace {

constexpr std::size_t largest_frame = 65536 + 256;   // with the headers of the device
constexpr std::size_t most_waiting = 256ULL << 20U;  // bytes per host, as in the buffer of a router

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "hosts_relay: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// `large`: the device may hand over packets that are larger than its MTU, and without checksums.
// That is what makes the relay fast; but where packets are lost, each one has to have its own fate.
int open_tap(const std::string& name, bool large) {
  const int fd = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) fail("/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (::ioctl(fd, TUNSETIFF, &request) != 0) fail(name);
  const unsigned long offload = large ? TUN_F_CSUM | TUN_F_TSO4 : TUN_F_CSUM;
  if (::ioctl(fd, TUNSETOFFLOAD, offload) != 0) fail(name + ": offload");
  return fd;
}

int open_namespace(const std::string& process) {
  const std::string path = "/proc/" + process + "/ns/net";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path);
  return fd;
}

void enter(int fd) {
  if (::setns(fd, CLONE_NEWNET) != 0) fail("setns");
}

struct Frame {
  std::int64_t due_ns;
  std::vector<char> bytes;
};

struct Link {
  int host = -1, port = -1;
  std::deque<Frame> waiting;
  std::size_t waiting_bytes = 0;
};

class Relay {
 public:
  Relay(std::int64_t latency_ns, double loss, std::vector<Link> links)
      : latency_ns_(latency_ns), lost_(loss), links_(std::move(links)), frame_(largest_frame) {
    for (const Link& link : links_)
      for (const int fd : {link.host, link.port}) polled_.push_back({fd, POLLIN, 0});
  }

  [[noreturn]] void run() {
    for (;;) {
      wait();
      for (std::size_t i = 0; i < links_.size(); ++i) {
        if (polled_[2 * i].revents != 0) take(links_[i]);
        if (polled_[2 * i + 1].revents != 0) pass(links_[i]);
        deliver(links_[i]);
      }
    }
  }

 private:
  // Waits until a frame arrives or is due.
  void wait() {
    std::int64_t first = -1;
    for (const Link& link : links_)
      if (!link.waiting.empty() && (first < 0 || link.waiting.front().due_ns < first))
        first = link.waiting.front().due_ns;
    const std::int64_t left = first < 0 ? 0 : std::max<std::int64_t>(0, first - now_ns());
    const timespec limit{left / 1'000'000'000, left % 1'000'000'000};
    if (::ppoll(polled_.data(), polled_.size(), first < 0 ? nullptr : &limit, nullptr) < 0 &&
        errno != EINTR)
      fail("ppoll");
  }

  // A device that is down gives no frame and takes none; its frames are lost, as on a real link.
  void take(Link& link) {
    for (int frames = 0; frames < 64; ++frames) {
      const ssize_t length = ::read(link.host, frame_.data(), frame_.size());
      if (length <= 0) return;
      const auto bytes = static_cast<std::size_t>(length);
      if (lost_(random_) || link.waiting_bytes + bytes > most_waiting) continue;
      link.waiting.push_back({now_ns() + latency_ns_, {frame_.data(), frame_.data() + bytes}});
      link.waiting_bytes += bytes;
    }
  }
  void pass(Link& link) {
    for (int frames = 0; frames < 64; ++frames) {
      const ssize_t length = ::read(link.port, frame_.data(), frame_.size());
      if (length <= 0) return;
      (void)!::write(link.host, frame_.data(), static_cast<std::size_t>(length));
    }
  }
  static void deliver(Link& link) {
    const std::int64_t now = now_ns();
    while (!link.waiting.empty() && link.waiting.front().due_ns <= now) {
      const std::vector<char>& bytes = link.waiting.front().bytes;
      (void)!::write(link.port, bytes.data(), bytes.size());
      link.waiting_bytes -= bytes.size();
      link.waiting.pop_front();
    }
  }

  std::int64_t latency_ns_;
  std::bernoulli_distribution lost_;
  std::mt19937_64 random_{1};
  std::vector<Link> links_;
  std::vector<char> frame_;
  std::vector<pollfd> polled_;  // of each link the host's device, then the port
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "hosts_relay LATENCY_US LOSS PID:PORT...\n");
    return 2;
  }
  const double latency_us = std::atof(argv[1]), loss = std::atof(argv[2]);
  prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  // Ranks spin while they wait. Without this the relay would wait for their time slices.
  (void)::setpriority(PRIO_PROCESS, 0, -20);
  const int own = open_namespace("self");
  std::vector<Link> links;
  for (int i = 3; i < argc; ++i) {
    const std::string text = argv[i];
    const std::size_t colon = text.find(':');
    Link link;
    link.port = open_tap(text.substr(colon + 1), loss == 0);
    const int there = open_namespace(text.substr(0, colon));
    enter(there);
    link.host = open_tap("eth0", loss == 0);
    enter(own);
    ::close(there);
    links.push_back(std::move(link));
  }
  Relay(static_cast<std::int64_t>(latency_us * 1e3), loss, std::move(links)).run();
}
