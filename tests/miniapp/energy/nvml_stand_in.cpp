// SPDX-License-Identifier: Apache-2.0
// A library with the functions of NVML that energy needs: two GPUs. The first uses 2.5 J between
// two readings, the second cannot be read, as GPUs older than Volta.
extern "C" {
int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static int devices[2];
  devices[index] = static_cast<int>(index);
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  static unsigned long long used = 1000;
  if (*static_cast<int*>(device) != 0) return 3;
  *millijoules = used += 2500;
  return 0;
}
}
