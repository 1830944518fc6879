/* A CUDA driver that does nothing: device memory is malloc, launches are counted and not run.
 *
 * With it the whole host side (devices, memory pool, launcher, transfers) runs where there is no GPU, and a test can
 * count what an operation asks of the driver. Built by null_driver.py beside it. Entry points that nobody asked for so far are
 * answered with success and nothing else.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef void *Handle;
typedef unsigned long long Address;

enum { LAUNCH, ALLOCATE, FREE, TO_DEVICE, TO_HOST, SYNCHRONIZE, LOAD, KINDS };
static long counts[KINDS];
static uint64_t next_handle = 0x100000;
static Handle context = (Handle)0x1000;

long null_driver_count(int kind) { return counts[kind]; }

static Handle new_handle(void) { return (Handle)(next_handle += 16); }
static Result succeed(void) { return 0; }

/* --- devices and contexts */
Result cuInit(unsigned flags) { return 0; }
Result cuDriverGetVersion(int *version) { *version = 13000; return 0; }
Result cuDeviceGetCount(int *count) { *count = 1; return 0; }
Result cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
Result cuDeviceGetName(char *name, int length, int device) { strncpy(name, "NULL-GPU", length); return 0; }
Result cuDeviceGetUuid_v2(char *uuid, int device) { memset(uuid, 7, 16); return 0; }
Result cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)8 << 30; return 0; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 1: *value = 1024; break;             /* threads of a block */
    case 2: case 3: *value = 1024; break;     /* block.x, block.y */
    case 4: *value = 64; break;               /* block.z */
    case 5: *value = 2147483647; break;       /* grid.x */
    case 6: case 7: *value = 65535; break;    /* grid.y, grid.z */
    case 8: *value = 49152; break;            /* shared memory of a block */
    case 10: *value = 32; break;              /* warp */
    case 16: *value = 132; break;             /* multiprocessors */
    case 39: *value = 2048; break;            /* threads of a multiprocessor */
    case 75: *value = 9; break;               /* compute capability */
    case 76: *value = 0; break;
    default: *value = 1;
    }
    return 0;
}
Result cuDevicePrimaryCtxRetain(Handle *out, int device) { *out = (Handle)0x1000; return 0; }
Result cuCtxGetCurrent(Handle *out) { *out = context; return 0; }
Result cuCtxSetCurrent(Handle given) { context = given; return 0; }
Result cuCtxPushCurrent_v2(Handle given) { context = given; return 0; }
Result cuCtxPopCurrent_v2(Handle *out) { if (out) *out = context; return 0; }
Result cuCtxGetDevice(int *device) { *device = 0; return 0; }
Result cuCtxGetDevice_v2(int *device, Handle given) { *device = 0; return 0; }
Result cuCtxGetId(Handle given, Address *id) { *id = 1; return 0; }
Result cuCtxSynchronize(void) { counts[SYNCHRONIZE]++; return 0; }

/* --- memory */
static Result allocate(Address *out, size_t size) {
    counts[ALLOCATE]++;
    *out = (Address)aligned_alloc(256, (size + 255) / 256 * 256 + 256);
    return 0;
}
Result cuMemGetInfo_v2(size_t *free_bytes, size_t *all) { *free_bytes = *all = (size_t)8 << 30; return 0; }
Result cuMemAlloc_v2(Address *out, size_t size) { return allocate(out, size); }
Result cuMemAllocAsync(Address *out, size_t size, Handle stream) { return allocate(out, size); }
Result cuMemAllocFromPoolAsync(Address *out, size_t size, Handle pool, Handle stream) { return allocate(out, size); }
Result cuMemHostAlloc(Handle *out, size_t size, unsigned flags) { *out = malloc(size); return 0; }
Result cuMemFree_v2(Address address) { counts[FREE]++; free((Handle)address); return 0; }
Result cuMemFreeAsync(Address address, Handle stream) { counts[FREE]++; free((Handle)address); return 0; }
Result cuMemFreeHost(Handle address) { free(address); return 0; }
Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t size, Handle stream) {
    counts[TO_DEVICE]++;
    memcpy((Handle)to, from, size);
    return 0;
}
Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t size, Handle stream) {
    counts[TO_HOST]++;
    memcpy(to, (Handle)from, size);
    return 0;
}
Result cuDeviceGetMemPool(Handle *pool, int device) { *pool = (Handle)0x6000; return 0; }
Result cuDeviceGetDefaultMemPool(Handle *pool, int device) { *pool = (Handle)0x6000; return 0; }
Result cuMemPoolGetAttribute(Handle pool, int attribute, Handle value) { *(Address *)value = 0; return 0; }
Result cuPointerGetAttribute(Handle out, int attribute, Address pointer) {
    if (attribute == 2) *(int *)out = 2;                    /* device memory */
    else if (attribute == 1) *(Handle *)out = (Handle)0x1000; /* its context */
    else if (attribute == 9) *(int *)out = 0;               /* its device */
    else *(Address *)out = pointer;
    return 0;
}
Result cuPointerGetAttributes(unsigned count, int *attributes, Handle *out, Address pointer) {
    for (unsigned i = 0; i < count; i++) cuPointerGetAttribute(out[i], attributes[i], pointer);
    return 0;
}

/* --- code */
Result cuModuleLoadData(Handle *module, const void *image) { counts[LOAD]++; *module = new_handle(); return 0; }
Result cuModuleLoadDataEx(Handle *module, const void *image, unsigned n, Handle options, Handle values) {
    return cuModuleLoadData(module, image);
}
Result cuModuleGetFunction(Handle *function, Handle module, const char *name) { *function = new_handle(); return 0; }
Result cuLibraryLoadData(Handle *library, const void *code, Handle a, Handle b, unsigned n, Handle c, Handle d, unsigned m) {
    counts[LOAD]++;
    *library = new_handle();
    return 0;
}
Result cuLibraryGetKernel(Handle *kernel, Handle library, const char *name) { *kernel = new_handle(); return 0; }
Result cuLibraryGetModule(Handle *module, Handle library) { *module = library; return 0; }
Result cuKernelGetFunction(Handle *function, Handle kernel) { *function = kernel; return 0; }
Result cuKernelGetLibrary(Handle *library, Handle kernel) { *library = (Handle)0x2000; return 0; }
Result cuKernelGetAttribute(int *value, int attribute, Handle kernel, int device) { *value = attribute == 0 ? 1024 : 16; return 0; }
Result cuFuncGetAttribute(int *value, int attribute, Handle function) { *value = attribute == 0 ? 1024 : 16; return 0; }
Result cuLaunchKernel(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, Handle stream, Handle *parameters, Handle *extra) {
    counts[LAUNCH]++;
    return 0;
}
Result cuLaunchKernelEx(Handle config, Handle function, Handle *parameters, Handle *extra) { counts[LAUNCH]++; return 0; }

/* --- streams and events */
Result cuStreamCreateWithPriority(Handle *stream, unsigned flags, int priority) { *stream = new_handle(); return 0; }
Result cuStreamGetFlags(Handle stream, unsigned *flags) { *flags = 0; return 0; }
Result cuStreamGetCtx(Handle stream, Handle *out) { *out = (Handle)0x1000; return 0; }
Result cuStreamGetDevice(Handle stream, int *device) { *device = 0; return 0; }
Result cuStreamGetId(Handle stream, Address *id) { *id = (Address)stream; return 0; }
Result cuStreamIsCapturing(Handle stream, int *status) { *status = 0; return 0; }
Result cuStreamSynchronize(Handle stream) { counts[SYNCHRONIZE]++; return 0; }
Result cuEventCreate(Handle *event, unsigned flags) { *event = new_handle(); return 0; }
Result cuEventElapsedTime_v2(float *milliseconds, Handle start, Handle stop) { *milliseconds = 0; return 0; }

/* --- errors, and how callers find all of the above */
Result cuGetErrorName(int error, const char **name) { *name = "NULL_DRIVER_ERROR"; return 0; }
Result cuGetErrorString(int error, const char **text) { *text = "an error of the null driver"; return 0; }
Result cuGetProcAddress_v2(const char *symbol, Handle *function, int version, Address flags, int *status) {
    static Handle self;
    static const char *endings[] = {"_v3", "_v2", "", 0};
    char name[160];
    if (!self) self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    *function = (Handle)succeed;
    for (int i = 0; endings[i]; i++) {
        snprintf(name, sizeof name, "%s%s", symbol, endings[i]);
        Handle found = self ? dlsym(self, name) : 0;
        if (found) { *function = found; break; }
    }
    if (status) *status = 0;
    return 0;
}
Result cuGetProcAddress(const char *symbol, Handle *function, int version, Address flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, 0);
}
