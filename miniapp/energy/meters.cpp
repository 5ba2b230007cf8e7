// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <core/clock.hpp>
#include <miniapp/energy/meters.hpp>

namespace shardmark {

namespace {

namespace fs = std::filesystem;

constexpr double microjoule = 1e-6;
// The longest times between two updates and the least differences of counts: RAPL's registers are
// updated every ms in units of 2^-14 J, Cray's files as `raw_scan_hz` says, and NVML's counter,
// which has no documented rate, every 20 to 100 ms as measured.
constexpr CounterSteps rapl_steps{1e-3, 1.0 / (1 << 14)};
constexpr CounterSteps pm_steps{0.1, 1};
constexpr CounterSteps nvml_steps{0.1, 1e-3};
constexpr std::int64_t sample_every_ns = 1'000'000'000;

// The first line of a file of the kernel, which is small. Throws std::runtime_error.
std::string first_line(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    throw std::runtime_error(
        fmt::format("{} cannot be read ({})", path, std::generic_category().message(errno)));
  char text[256];
  const ssize_t count = ::read(fd, text, sizeof text);
  const int error = errno;
  ::close(fd);
  if (count < 0)
    throw std::runtime_error(
        fmt::format("{} cannot be read ({})", path, std::generic_category().message(error)));
  const std::string all(text, static_cast<std::size_t>(count));
  return all.substr(0, all.find('\n'));
}

// The number at the beginning of the file: "12345 J 1700000000000000 us".
double number_in(const std::string& path) {
  const std::string line = first_line(path);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || end == line.data())
    throw std::runtime_error(fmt::format("{} does not contain a number", path));
  return static_cast<double>(value);
}

std::string text_in(const std::string& path, const std::string& otherwise) {
  try {
    return first_line(path);
  } catch (const std::runtime_error&) {
    return otherwise;
  }
}

// The entries of a folder by name; empty if there is no such folder.
std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// A file that contains a count.
class FileCounter : public EnergyCounter {
 public:
  FileCounter(std::string name, std::string source, EnergyPart part, CounterSteps steps,
              std::string path, double unit, double range)
      : EnergyCounter(std::move(name), std::move(source), part, steps),
        path_(std::move(path)),
        unit_(unit),
        range_(range) {}
  double read() override { return number_in(path_) * unit_; }
  double range() const override { return range_; }

 private:
  std::string path_;
  double unit_, range_;
};

// Returns the function `name` of the library. Throws std::runtime_error if the library does not
// have it.
template<class Function>
Function function_of(void* library, const char* name) {
  void* found = ::dlsym(library, name);
  if (found == nullptr) throw std::runtime_error(fmt::format("NVML has no {}", name));
  return reinterpret_cast<Function>(found);
}

void require(int status, const char* name) {
  if (status != 0) throw std::runtime_error(fmt::format("{} failed with {}", name, status));
}

/// NVIDIA's management library, loaded while the program runs, so that a build needs neither its
/// header nor a GPU.
class Nvml {
 public:
  /// Throws std::runtime_error if the library or one of its functions is not there, or if the
  /// driver does not answer.
  explicit Nvml(const std::string& library)
      : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(library + " is not there");
    try {
      const auto init = function_of<Call>(library_, "nvmlInit_v2");
      const auto count = function_of<int (*)(unsigned*)>(library_, "nvmlDeviceGetCount_v2");
      const auto handle =
          function_of<int (*)(unsigned, void**)>(library_, "nvmlDeviceGetHandleByIndex_v2");
      energy_ = function_of<Energy>(library_, "nvmlDeviceGetTotalEnergyConsumption");
      const auto shutdown = function_of<Call>(library_, "nvmlShutdown");
      require(init(), "nvmlInit_v2");
      shutdown_ = shutdown;
      unsigned devices = 0;
      require(count(&devices), "nvmlDeviceGetCount_v2");
      handles_.resize(devices);
      for (unsigned i = 0; i < devices; ++i)
        require(handle(i, &handles_[i]), "nvmlDeviceGetHandleByIndex_v2");
    } catch (...) {
      if (shutdown_ != nullptr) static_cast<void>(shutdown_());
      ::dlclose(library_);
      throw;
    }
  }
  ~Nvml() {
    static_cast<void>(shutdown_());
    ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  unsigned devices() const { return static_cast<unsigned>(handles_.size()); }
  /// Joules since the driver was loaded. Throws std::runtime_error, for example for a GPU that is
  /// older than Volta.
  double joules(unsigned device) const {
    unsigned long long millijoules = 0;
    require(energy_(handles_.at(device), &millijoules), "nvmlDeviceGetTotalEnergyConsumption");
    return static_cast<double>(millijoules) * 1e-3;
  }

 private:
  using Energy = int (*)(void*, unsigned long long*);
  using Call = int (*)();
  void* library_ = nullptr;
  Energy energy_ = nullptr;
  Call shutdown_ = nullptr;
  std::vector<void*> handles_;
};

class GpuCounter : public EnergyCounter {
 public:
  GpuCounter(std::shared_ptr<Nvml> nvml, unsigned device)
      : EnergyCounter(fmt::format("gpu{}", device), "nvml", EnergyPart::gpu, nvml_steps),
        nvml_(std::move(nvml)),
        device_(device) {}
  double read() override { return nvml_->joules(device_); }

 private:
  std::shared_ptr<Nvml> nvml_;
  unsigned device_;
};

bool resolves(const EnergyCounter& counter, const PhaseSpans& spans) {
  const double update_s = counter.energy().steps.update_s;
  return std::ranges::any_of(spans, [&](const PhaseSpan& span) {
    return span.count > 0 && update_s <= most_phase_error * span.mean_s();
  });
}

}  // namespace

EnergyMeters::EnergyMeters(const std::string& root, const std::string& nvml) {
  find_pm_counters(root);
  find_powercap(root);
  find_gpus(nvml);
}

bool EnergyMeters::keep(std::unique_ptr<EnergyCounter> counter) {
  try {
    counter->begin();
  } catch (const std::runtime_error& e) {
    missing_.push_back(fmt::format("{}: {}", counter->energy().name, e.what()));
    return false;
  }
  counters_.push_back(std::move(counter));
  return true;
}

// Zones below a package are part of it, apart from memory. `psys` is the whole platform.
void EnergyMeters::find_powercap(const std::string& root) {
  const std::string folder = root + "/sys/class/powercap";
  bool any = false, readable = false;
  for (const std::string& zone : entries(folder)) {
    if (!zone.starts_with("intel-rapl:")) continue;
    const std::string at = folder + "/" + zone + "/";
    const std::string name = text_in(at + "name", zone);
    const bool memory = name == "dram";
    if (!memory && !name.starts_with("package")) continue;
    double range = 0;
    try {
      range = number_in(at + "max_energy_range_uj") * microjoule;
    } catch (const std::runtime_error&) {  // then a wrap ends the measurement
    }
    any = true;
    const std::string package = zone.substr(0, zone.rfind(':'));
    readable |= keep(std::make_unique<FileCounter>(
        memory ? name + " of " + text_in(folder + "/" + package + "/name", package) : name,
        "powercap", memory ? EnergyPart::memory : EnergyPart::processor, rapl_steps,
        at + "energy_uj", microjoule, range));
  }
  if (!readable) find_hwmon(root);
  if (!any && counters_.empty())
    missing_.push_back(
        fmt::format("processors: {} has no zone intel-rapl (virtual machines have none)", folder));
}

void EnergyMeters::find_hwmon(const std::string& root) {
  const std::string folder = root + "/sys/class/hwmon";
  for (const std::string& chip : entries(folder))
    for (const std::string& file : entries(folder + "/" + chip)) {
      if (!file.starts_with("energy") || !file.ends_with("_input")) continue;
      const std::string at = folder + "/" + chip + "/";
      const std::string label =
          text_in(at + file.substr(0, file.size() - 5) + "label", file.substr(0, file.size() - 6));
      // AMD's driver counts sockets and cores; the cores are part of the sockets.
      if (label.starts_with("Ecore")) continue;
      keep(std::make_unique<FileCounter>(text_in(at + "name", chip) + " " + label, "hwmon",
                                         EnergyPart::processor, rapl_steps, at + file, microjoule,
                                         0));
    }
}

void EnergyMeters::find_pm_counters(const std::string& root) {
  const std::string folder = root + "/sys/cray/pm_counters";
  CounterSteps steps = pm_steps;
  try {
    if (const double hz = number_in(folder + "/raw_scan_hz"); hz > 0) steps.update_s = 1 / hz;
  } catch (const std::runtime_error&) {  // an older version of the files
  }
  for (const std::string& file : entries(folder)) {
    if (!file.ends_with("energy")) continue;
    const EnergyPart part = file == "energy"             ? EnergyPart::node
                            : file.starts_with("accel")  ? EnergyPart::gpu
                            : file.starts_with("memory") ? EnergyPart::memory
                                                         : EnergyPart::processor;
    keep(std::make_unique<FileCounter>(file == "energy" ? "node" : file.substr(0, file.size() - 7),
                                       "pm_counters", part, steps, folder + "/" + file, 1, 0));
  }
}

void EnergyMeters::find_gpus(const std::string& library) {
  try {
    const auto nvml = std::make_shared<Nvml>(library);
    for (unsigned i = 0; i < nvml->devices(); ++i) keep(std::make_unique<GpuCounter>(nvml, i));
  } catch (const std::runtime_error& e) {
    missing_.push_back(fmt::format("GPUs: {}", e.what()));
  }
}

template<class Call>
void EnergyMeters::each(Call call) {
  std::erase_if(counters_, [&](std::unique_ptr<EnergyCounter>& counter) {
    try {
      call(*counter);
      return false;
    } catch (const std::runtime_error& e) {
      missing_.push_back(fmt::format("{}: {}", counter->energy().name, e.what()));
      following_.erase(counter.get());
      return true;
    }
  });
}

void EnergyMeters::begin() {
  each([](EnergyCounter& counter) { counter.begin(); });
  sampled_ns_ = monotonic_ns();
}

void EnergyMeters::sample(bool now) {
  if (!now && monotonic_ns() - sampled_ns_ < sample_every_ns) return;
  each([](EnergyCounter& counter) { counter.sample(); });
  sampled_ns_ = monotonic_ns();
}

bool EnergyMeters::follow_phases(const PhaseSpans& spans) {
  following_.clear();
  for (const auto& counter : counters_)
    if (resolves(*counter, spans)) following_.insert(counter.get());
  return !following_.empty();
}

void EnergyMeters::change_phase(std::optional<EnergyPhase> ended, bool all) {
  each([&](EnergyCounter& counter) {
    if (all || following_.contains(&counter)) counter.change_phase(ended);
  });
}

void EnergyMeters::pause() {
  each([](EnergyCounter& counter) { counter.pause(); });
}

void EnergyMeters::resume() {
  each([](EnergyCounter& counter) { counter.resume(); });
}

std::vector<CounterEnergy> EnergyMeters::energy() const {
  std::vector<CounterEnergy> all;
  for (const auto& counter : counters_) all.push_back(counter->energy());
  return all;
}

}  // namespace shardmark
