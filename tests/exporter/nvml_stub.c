/* A pretended libnvidia-ml.so.1: two H100s whose state a test sets, to exercise the real ctypes path.
 *
 * Built with: gcc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 nvml_stub.c -o libnvidia-ml.so.1 -lpthread
 * A test calls stub_set(gpu, what, value) and stub_reset(); everything else is NVML's ABI.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10,
       GPU_IS_LOST = 15 };
enum { GPUS = 2, SLOTS = 7 };

typedef unsigned long long u64;

struct card {
    int index, lost, hang, garbage, no_fields, mig, nvlink5, no_profiling, wide_pcie, link, no_events, fan, process_error;
    u64 ecc, throttle_ns, energy_mj, pcie_bytes, processes;
    u64 xid;
};
struct mig { int gpu, slot; };

static struct card cards[GPUS];
static struct mig migs[GPUS][SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static int samples[64], sample_count;

void stub_reset(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < GPUS; i++) {
        memset(&cards[i], 0, sizeof cards[i]);
        cards[i].index = i;
        cards[i].energy_mj = 3600000;
        for (int s = 0; s < SLOTS; s++)
            migs[i][s] = (struct mig){i, s};
    }
    sample_count = 0;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&lock);
}

int stub_set(int gpu, const char *what, u64 value)
{
    struct card *c = &cards[gpu];
    pthread_mutex_lock(&lock);
    if (!strcmp(what, "lost")) c->lost = (int)value;
    else if (!strcmp(what, "hang")) c->hang = (int)value;
    else if (!strcmp(what, "garbage")) c->garbage = (int)value;
    else if (!strcmp(what, "no_fields")) c->no_fields = (int)value;
    else if (!strcmp(what, "mig")) c->mig = (int)value;
    else if (!strcmp(what, "nvlink5")) c->nvlink5 = (int)value;
    else if (!strcmp(what, "no_profiling")) c->no_profiling = (int)value;
    else if (!strcmp(what, "wide_pcie")) c->wide_pcie = (int)value;
    else if (!strcmp(what, "link")) c->link = (int)value;
    else if (!strcmp(what, "no_events")) c->no_events = (int)value;
    else if (!strcmp(what, "fan")) c->fan = (int)value;
    else if (!strcmp(what, "process_error")) c->process_error = (int)value;
    else if (!strcmp(what, "ecc")) c->ecc = value;
    else if (!strcmp(what, "throttle_ns")) c->throttle_ns = value;
    else if (!strcmp(what, "energy_mj")) c->energy_mj = value;
    else if (!strcmp(what, "pcie_bytes")) c->pcie_bytes = value;
    else if (!strcmp(what, "processes")) c->processes = value;
    else if (!strcmp(what, "xid")) c->xid = value;
    else { pthread_mutex_unlock(&lock); return -1; }
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int answers(struct card *c)
{
    pthread_mutex_lock(&lock);
    while (c->hang)
        pthread_cond_wait(&released, &lock);
    pthread_mutex_unlock(&lock);
    return c->lost ? GPU_IS_LOST : SUCCESS;
}

static struct card *card_of(void *handle)
{
    struct mig *m = handle;
    if (m >= &migs[0][0] && m <= &migs[GPUS - 1][SLOTS - 1]) return &cards[m->gpu];
    return handle;
}

static struct mig *mig_of(void *handle)
{
    struct mig *m = handle;
    return m >= &migs[0][0] && m <= &migs[GPUS - 1][SLOTS - 1] ? m : NULL;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return SUCCESS; }
int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : "stub error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.0-stub"); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = GPUS; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
    if (index >= GPUS) return INVALID_ARGUMENT;
    *handle = &cards[index];
    return cards[index].lost ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned size)
{
    struct mig *m = mig_of(handle);
    if (m) snprintf(text, size, "MIG-00000000-0000-0000-0000-0000000000%d%d", m->gpu, m->slot);
    else snprintf(text, size, "GPU-00000000-0000-0000-0000-00000000000%d", ((struct card *)handle)->index);
    return SUCCESS;
}

int nvmlDeviceGetName(void *handle, char *text, unsigned size)
{
    snprintf(text, size, mig_of(handle) ? "NVIDIA H100 80GB HBM3 MIG 1g.10gb" : "NVIDIA H100 80GB HBM3");
    return SUCCESS;
}

int nvmlDeviceGetSerial(void *handle, char *text, unsigned size)
{
    (void)handle;
    snprintf(text, size, "1650000000000");
    return SUCCESS;
}

int nvmlDeviceGetVbiosVersion(void *handle, char *text, unsigned size)
{
    (void)handle;
    snprintf(text, size, "96.00.61.00.01");
    return SUCCESS;
}

/* Minor numbers run against the indices, as they do on some boards. */
int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor)
{
    *minor = (unsigned)(GPUS - 1 - card_of(handle)->index);
    return SUCCESS;
}

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *pci)
{
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02x:00.0", 0xa0 + card_of(handle)->index);
    return SUCCESS;
}

struct memory_v2 { unsigned version; u64 total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *memory)
{
    int code = answers(card_of(handle));
    u64 mib = 1048576, total = mig_of(handle) ? 9856 : 81559;
    memory->total = total * mib;
    memory->reserved = 600 * mib;
    memory->used = 1000 * mib;
    memory->free = memory->total - memory->reserved - memory->used;
    return code;
}

struct bar1 { u64 total, free, used; };
int nvmlDeviceGetBAR1MemoryInfo(void *handle, struct bar1 *bar1)
{
    *bar1 = (struct bar1){131072, 131000, 72};
    return answers(card_of(handle));
}

struct utilization { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *rates)
{
    struct card *c = handle;
    if (c->mig) return NOT_SUPPORTED;
    rates->gpu = c->garbage ? 808334905u : 97;
    rates->memory = 41;
    return answers(c);
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts)
{
    struct card *c = handle;
    int code = answers(c);
    *milliwatts = c->garbage ? 4294967295u : 699123;
    return code;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius)
{
    (void)sensor;
    *celsius = ((struct card *)handle)->garbage ? 4294967295u : 61;
    return answers(handle);
}

int nvmlDeviceGetClockInfo(void *handle, int kind, unsigned *megahertz)
{
    *megahertz = kind == 2 ? 2619 : 1980;
    return answers(handle);
}

int nvmlDeviceGetCurrentClocksEventReasons(void *handle, u64 *reasons)
{
    *reasons = ((struct card *)handle)->throttle_ns ? 4 : 0;
    return answers(handle);
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending)
{
    *current = *pending = ((struct card *)handle)->mig > 0;
    return answers(handle);
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count)
{
    (void)handle;
    *count = SLOTS;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned slot, void **mig)
{
    struct card *c = handle;
    if (slot >= (unsigned)c->mig) return NOT_FOUND;
    *mig = &migs[c->index][slot];
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *id)
{
    struct mig *m = mig_of(handle);
    if (!m) return INVALID_ARGUMENT;
    *id = (unsigned)m->slot + 7;
    return SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(void *handle, unsigned *id)
{
    (void)handle;
    *id = 0;
    return SUCCESS;
}

struct process { unsigned pid; u64 memory; unsigned gpu_instance, compute_instance; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *processes)
{
    struct card *c = handle;
    int code = c->process_error ? c->process_error : answers(c);
    if (code) return code;
    if (!c->processes) { *count = 0; return SUCCESS; }
    if (*count < 1 || !processes) { *count = 1; return INSUFFICIENT_SIZE; }
    processes[0] = (struct process){(unsigned)c->processes, 1048576, 0xFFFFFFFF, 0xFFFFFFFF};
    *count = 1;
    return SUCCESS;
}

struct field { unsigned id, scope; long long timestamp, latency; int type, code; union { double d; unsigned ui; u64 ull; } value; };
int nvmlDeviceGetFieldValues(void *handle, int count, struct field *fields)
{
    struct card *c = handle;
    int code = answers(c);
    if (code) return code;
    for (int i = 0; i < count; i++) {
        struct field *f = &fields[i];
        f->code = SUCCESS;
        f->type = 3;
        if (c->no_fields) { f->code = NOT_SUPPORTED; continue; }
        switch (f->id) {
        case 83: f->value.ull = c->energy_mj; break;
        case 82: f->type = 0; f->value.ull = 0; f->value.ui = 72; break;
        case 4: f->value.ull = c->ecc; break;
        case 74: f->value.ull = c->throttle_ns; break;
        case 186: f->type = 1; f->value.ui = 701000; break;
        case 197: f->type = c->wide_pcie ? 3 : 1; f->value.ull = c->pcie_bytes & (c->wide_pcie ? ~0ull : 0xFFFFFFFFull); break;
        case 138: if (c->nvlink5) { f->code = NOT_SUPPORTED; break; }
                  if (f->scope != 0xFFFFFFFF) { f->code = INVALID_ARGUMENT; break; } f->value.ull = 2; break;
        case 59: if (c->nvlink5) f->code = NOT_SUPPORTED; else f->value.ull = 1; break;
        case 202: case 206: case 214: case 215: case 221:
                  if (!c->nvlink5) { f->code = NOT_SUPPORTED; break; }
                  if (f->scope != 0xFFFFFFFF) { f->code = INVALID_ARGUMENT; break; } f->value.ull = 5000 + f->id; break;
        default: f->code = NOT_SUPPORTED;
        }
    }
    return SUCCESS;
}

int nvmlEventSetCreate(void **set) { static int one; *set = &one; return SUCCESS; }
int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }
int nvmlDeviceGetSupportedEventTypes(void *handle, u64 *types)
{
    *types = card_of(handle)->no_events ? 0 : 8 | 1;
    return SUCCESS;
}

int stub_registrations;
int nvmlDeviceRegisterEvents(void *handle, u64 types, void *set)
{
    (void)handle; (void)set;
    stub_registrations++;
    return types == 8 ? SUCCESS : INVALID_ARGUMENT;
}

struct event { void *device; u64 type, value; unsigned gpu_instance, compute_instance; };
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout)
{
    (void)set; (void)timeout;
    for (int i = 0; i < GPUS; i++)
        if (cards[i].xid) {
            *event = (struct event){&cards[i], 8, cards[i].xid, 0xFFFFFFFF, 0xFFFFFFFF};
            cards[i].xid = 0;
            return SUCCESS;
        }
    return TIMEOUT;
}

struct support { unsigned version, supported; };
int nvmlGpmQueryDeviceSupport(void *handle, struct support *support)
{
    support->supported = !card_of(handle)->no_profiling;
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *handle, unsigned *generation)
{
    *generation = card_of(handle)->link ? (unsigned)card_of(handle)->link : 5;
    return answers(card_of(handle));
}

int nvmlDeviceGetMaxPcieLinkWidth(void *handle, unsigned *lanes)
{
    *lanes = card_of(handle)->link ? 1 : 16;
    return answers(card_of(handle));
}

int nvmlDeviceGetFanSpeed(void *handle, unsigned *percent)
{
    *percent = 40;
    return card_of(handle)->fan ? answers(card_of(handle)) : NOT_SUPPORTED;
}
int nvmlGpmSampleAlloc(void **sample) { *sample = &samples[sample_count++ % 64]; return SUCCESS; }
int nvmlGpmSampleFree(void *sample) { (void)sample; return SUCCESS; }
int nvmlGpmSampleGet(void *handle, void *sample) { *(int *)sample = -1; return answers(handle); }
int nvmlGpmMigSampleGet(void *handle, unsigned instance, void *sample) { *(int *)sample = (int)instance; return answers(handle); }

struct metric { unsigned id; int code; double value; const char *short_name, *long_name, *unit; };
struct metrics { unsigned version, count; void *first, *second; struct metric metrics[]; };
int nvmlGpmMetricsGet(struct metrics *request)
{
    for (unsigned i = 0; i < request->count; i++) {
        struct metric *m = &request->metrics[i];
        int instance = *(int *)request->second;
        m->code = SUCCESS;
        if (m->id == 2) m->value = instance < 0 ? 80.0 : 10.0 + instance;
        else if (m->id == 1) m->value = 101.5;
        else if (m->id == 20) m->value = 2048.0;
        else m->code = NOT_SUPPORTED;
    }
    return SUCCESS;
}
