/* What CUDA's driver and NVML answer on a machine with two linked GPUs, one of them hidden from
   this process and one cut into slices: the file of both libraries in the test of what asks them.
 */
#include <stdio.h>
#include <string.h>

int cuInit(unsigned flags) { return (int)flags; }
int cuDriverGetVersion(int* version) { return *version = 12040, 0; }
int cuDeviceGetCount(int* count) { return *count = 3, 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal == 2 ? 101 : 0; }
int cuDeviceGetName(char* name, int length, int device) {
  snprintf(name, (size_t)length, "A GPU MIG %dg", device + 1);
  return 0;
}
int cuDeviceGetPCIBusId(char* id, int length, int device) {
  snprintf(id, (size_t)length, device < 2 ? "0000:03:00.0" : "?");
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 124;
  return device < 0;
}
int cuGetErrorName(int error, const char** name) {
  return *name = error == 101 ? "CUDA_ERROR_INVALID_DEVICE" : NULL, *name == NULL;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  memset(uuid, 0xa0 + device, 16);
  return 0;
}

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
