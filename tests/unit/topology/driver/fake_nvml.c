/* NVML's answers on a machine with two linked GPUs: the library's file in the test of what asks it.
 */
#include <string.h>

struct pci_info {
  char legacy[16];
  unsigned domain, bus, device, ids[2];
  char bus_id[32];
};
struct field_value {
  unsigned field, scope;
  long long timestamp, latency;
  unsigned type;
  int result;
  unsigned value, rest;
};

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static char devices[2];
  *device = &devices[index];
  return index == 1 ? 0 : (*(char*)*device = 1, 0);
}
static int is_first(const void* device) { return *(const char*)device == 1; }
static int put(struct pci_info* info, const char* id) {
  memset(info, 0, sizeof *info);
  strcpy(info->bus_id, id);
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, struct pci_info* info) {
  return put(info, is_first(device) ? "00000000:03:00.0" : "00000000:05:00.0");
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
  (void)device;
  return *active = link < 4, link < 6 ? 0 : 2;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, struct pci_info* info) {
  if (link == 3) return put(info, "00000000:F0:00.0");
  return put(info, is_first(device) ? "00000000:05:00.0" : "00000000:03:00.0");
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
  (void)device;
  return *type = link == 3 ? 2 : 0, 0;
}
int nvmlDeviceGetFieldValues(void* device, int count, struct field_value* values) {
  values->result = is_first(device) ? 0 : 3;
  values->type = 1;
  values->value = values->field == 170 ? 10 : 45000;
  return count == 1 ? 0 : 2;
}
